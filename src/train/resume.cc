#include "train/resume.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAllowDataOrder = "data-order";

// The shapes and dtypes of what a checkpoint holds.
constexpr std::array<std::string_view, 9> kShapeKeys = {
    "model.vocab_size",        "model.hidden_size",         "model.num_layers",
    "model.num_heads",         "model.num_kv_heads",        "model.head_dim",
    "model.intermediate_size", "model.tie_word_embeddings", "train.dtype"};

// Which sequences there are and how they are numbered: another value makes old positions
// meaningless.
constexpr std::array<std::string_view, 3> kSequenceKeys = {"data.max_context", "data.over_long",
                                                           "data.seed"};
// How many of them a step takes: positions keep their meaning, steps do not.
constexpr std::array<std::string_view, 2> kStepKeys = {"data.global_batch_tokens", "data.tail"};

template <std::size_t N>
std::vector<ConfigDifference> among(const std::vector<ConfigDifference>& differences,
                                    const std::array<std::string_view, N>& keys) {
  std::vector<ConfigDifference> found;
  for (const ConfigDifference& difference : differences) {
    if (std::find(keys.begin(), keys.end(), difference.key) != keys.end()) {
      found.push_back(difference);
    }
  }
  return found;
}

std::string show(const ConfigDifference& difference) {
  return fmt::format("{} was {}, is {}", difference.key, difference.left, difference.right);
}

std::string show(const std::vector<ConfigDifference>& differences) {
  std::vector<std::string> texts;
  for (const ConfigDifference& difference : differences) texts.push_back(show(difference));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

fs::path checkpoint_folder(const fs::path& out) { return out / "checkpoints"; }

Allowances parse_allowances(const std::vector<std::string>& names) {
  Allowances allowances;
  for (const std::string& name : names) {
    WEFT_USER_CHECK(name == kAllowDataOrder, "--allow '{}' is unknown; what can be allowed: {}",
                    name, kAllowDataOrder);
    allowances.data_order = true;
  }
  return allowances;
}

void check_continuation(const TrainConfig& then, const TrainConfig& now, bool same_corpus,
                        const Allowances& allowances, const std::string& source,
                        ResumePoint& point) {
  point.differences = diff(then, now);
  const auto shapes = among(point.differences, kShapeKeys);
  WEFT_USER_CHECK(shapes.empty(),
                  "'{}' holds another model: {}; choose another train.out, or set these back",
                  source, show(shapes));
  const auto sequences = among(point.differences, kSequenceKeys);
  const auto steps = among(point.differences, kStepKeys);
  if (same_corpus && sequences.empty() && steps.empty()) return;
  auto changed = sequences;
  changed.insert(changed.end(), steps.begin(), steps.end());
  std::string what = show(changed);
  if (!same_corpus) what = "the corpus has other contents" + (what.empty() ? "" : "; " + what);
  WEFT_USER_CHECK(allowances.data_order,
                  "continuing from '{}' would change which sequences the next steps hold: {}; set "
                  "this back, choose another train.out, or give --allow {}",
                  source, what, kAllowDataOrder);
  point.restarts_data = !same_corpus || !sequences.empty();
  point.notes.push_back(fmt::format("the data order changes from here on (allowed): {}{}", what,
                                    point.restarts_data ? "; reading starts again at epoch 0"
                                                        : "; reading goes on where it was"));
}

ResumePoint find_resume_point(const TrainConfig& config, const Hash128& corpus_hash,
                              const Allowances& allowances) {
  const fs::path out = config.train.out;
  NewestCheckpoint newest = find_newest_checkpoint(checkpoint_folder(out));
  ResumePoint point;
  for (const std::string& damage : newest.damaged) {
    point.notes.push_back("passed over a checkpoint: " + damage);
  }
  if (!newest.manifest) {
    WEFT_USER_CHECK(newest.damaged.empty(),
                    "none of the {} checkpoints in '{}' is whole: {}; remove that folder to start "
                    "over, or choose another train.out",
                    newest.damaged.size(), checkpoint_folder(out).string(),
                    fmt::join(newest.damaged, "; "));
    if (fs::exists(out / "metrics.jsonl")) {
      point.notes.push_back(fmt::format(
          "'{}' holds a run that ended before its first save; it starts again at step 0",
          out.string()));
    }
    return point;
  }
  const std::string source = newest.path.string();
  const fs::path saved = newest.path / kCheckpointConfigFile;
  const TrainConfig then = parse_train_config(read_text_file(saved), saved.string(), {});
  check_continuation(then, config, newest.manifest->corpus_hash == corpus_hash, allowances, source,
                     point);
  point.manifest = std::move(newest.manifest);
  point.checkpoint = newest.path;
  return point;
}

}  // namespace weft
