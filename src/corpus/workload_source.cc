// Where a named workload comes from: text of the command line, files, corpora.
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "corpus/corpus.h"
#include "corpus/workload.h"

namespace weft {
namespace {

constexpr std::int64_t kLongest = (std::int64_t{1} << 32) - 1;  // of a plan's sequence
constexpr std::string_view kLogNormal = "lognormal";

// Calls visit(line, line number from 1) for each line of the text.
void for_each_line(std::string_view text, const auto& visit) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    visit(text.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
}

std::string_view trim(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::int64_t> read_jsonl_lengths(const std::filesystem::path& path) {
  std::vector<std::int64_t> lengths;
  const std::string text = read_text_file(path);
  for_each_line(text, [&](std::string_view raw, std::size_t number) {
    const std::string_view line = trim(raw);
    if (line.empty()) return;
    const auto record = nlohmann::json::parse(line, nullptr, false);
    std::optional<std::int64_t> tokens;
    for (const char* key : {"tokens", "length"}) {
      if (!tokens && record.is_object() && record.contains(key) && record[key].is_number_integer())
        tokens = record[key].get<std::int64_t>();
    }
    WEFT_USER_CHECK(
        tokens && *tokens >= 1 && *tokens <= kLongest,
        "lengths file '{}', line {}: expected a JSON object with an integer \"tokens\" or "
        "\"length\" from 1 to {}",
        path.string(), number, kLongest);
    lengths.push_back(*tokens);
  });
  return lengths;
}

std::vector<std::int64_t> corpus_lengths(const std::filesystem::path& folder) {
  const Corpus corpus(folder);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < corpus.num_documents(); ++i) {
    const std::int64_t tokens = corpus.document(i).tokens.value();
    if (tokens > 0) lengths.push_back(tokens);
  }
  return lengths;
}

double parse_real(std::string_view text, const std::string& whole) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_USER_CHECK(error == std::errc() && stop == text.data() + text.size(),
                  "workload '{}': '{}' is not a number; expected lognormal:MEAN,SIGMA,MAX such as "
                  "lognormal:1024,1.5,8K",
                  whole, text);
  return value;
}

LogNormalLengths parse_log_normal(const std::string& text) {
  const std::string_view numbers = std::string_view(text).substr(kLogNormal.size());
  const std::size_t first = numbers.find(',');
  const std::size_t second = first == std::string_view::npos ? first : numbers.find(',', first + 1);
  WEFT_USER_CHECK(numbers.starts_with(':') && second != std::string_view::npos,
                  "workload '{}': expected lognormal:MEAN,SIGMA,MAX such as lognormal:1024,1.5,8K",
                  text);
  LogNormalLengths lengths{
      .mean = parse_real(numbers.substr(1, first - 1), text),
      .sigma = parse_real(numbers.substr(first + 1, second - first - 1), text),
      .max = Tokens(parse_count(numbers.substr(second + 1), "the MAX of " + text))};
  WEFT_USER_CHECK(
      lengths.mean >= 1 && lengths.mean <= 1e9 && lengths.sigma >= 0 && lengths.sigma <= 10 &&
          lengths.max >= Tokens(1),
      "workload '{}': expected a mean of 1 to 1e9, a sigma of 0 to 10 and a maximum of 1 "
      "or more",
      text);
  return lengths;
}

}  // namespace

std::vector<std::int64_t> read_lengths_file(const std::filesystem::path& path) {
  std::vector<std::int64_t> lengths;
  const std::string text = read_text_file(path);
  for_each_line(text, [&](std::string_view raw, std::size_t number) {
    const std::string_view line = trim(raw.substr(0, raw.find('#')));
    if (line.empty()) return;
    std::int64_t tokens = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), tokens);
    WEFT_USER_CHECK(error == std::errc() && stop == line.data() + line.size() && tokens >= 1 &&
                        tokens <= kLongest,
                    "lengths file '{}', line {}: '{}' is not a length; expected one integer from 1 "
                    "to {}",
                    path.string(), number, line, kLongest);
    lengths.push_back(tokens);
  });
  return lengths;
}

Workload parse_workload(const std::string& text, Tokens context) {
  if (text == "byted") return byted_workload(context);
  if (text == "github") return github_workload(context);
  if (text == "wikipedia") return wikipedia_workload(context);
  if (text.starts_with(kLogNormal))
    return {.name = text, .lengths = parse_log_normal(text), .context = context};
  const std::filesystem::path path(text);
  if (!std::filesystem::exists(path)) {
    const std::vector<std::string> names{"byted", "github", "wikipedia",
                                         "lognormal:MEAN,SIGMA,MAX"};
    const auto nearest = nearest_name(text, names);
    throw_user_error("workload '{}' is neither a name ({}) nor a file{}", text,
                     fmt::join(names, ", "),
                     nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
  }
  ListedLengths listed;
  if (std::filesystem::is_directory(path)) {
    listed.tokens = corpus_lengths(path);
  } else {
    listed.tokens =
        path.extension() == ".jsonl" ? read_jsonl_lengths(path) : read_lengths_file(path);
  }
  WEFT_USER_CHECK(!listed.tokens.empty(), "workload '{}' has no lengths", text);
  return {.name = path.filename().string(), .lengths = std::move(listed), .context = context};
}

}  // namespace weft
