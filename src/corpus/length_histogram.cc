#include "corpus/length_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft {
namespace {

// Eighths of a character, so that a share of 1 % can be told from none.
std::string bar(double share, int width) {
  constexpr std::string_view kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto eighths = static_cast<int>(std::lround(share * width * 8));
  if (share > 0) eighths = std::max(eighths, 1);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kParts[eighths % 8];
  const int used = eighths / 8 + (eighths % 8 > 0 ? 1 : 0);
  return text + std::string(static_cast<std::size_t>(width - used), ' ');
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void LengthHistogram::add(Tokens length) {
  WEFT_CHECK(length >= Tokens(1), "a sample of {} tokens", length);
  const auto bucket =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length.value())) - 1);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  for (LengthBucket* counted : {&buckets_[bucket], &total_}) {
    ++counted->num_samples;
    counted->tokens += length;
  }
}

LengthHistogram document_lengths(const Corpus& corpus) {
  LengthHistogram histogram;
  for (std::int64_t i = 0; i < corpus.num_documents(); ++i)
    histogram.add(corpus.document(i).tokens);
  return histogram;
}

std::vector<Tokens> length_quantiles(const Corpus& corpus, std::span<const double> shares) {
  std::vector<Tokens> lengths;
  lengths.reserve(static_cast<std::size_t>(corpus.num_documents()));
  for (std::int64_t i = 0; i < corpus.num_documents(); ++i)
    lengths.push_back(corpus.document(i).tokens);
  std::vector<Tokens> quantiles;
  for (const double share : shares) {
    const double rank = std::ceil(share * static_cast<double>(lengths.size()));
    const auto idx = static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
    std::nth_element(lengths.begin(), lengths.begin() + idx, lengths.end());
    quantiles.push_back(lengths[static_cast<std::size_t>(idx)]);
  }
  return quantiles;
}

std::string format_histogram(const LengthHistogram& histogram, int columns) {
  constexpr int kFixedColumns = 59;  // everything but the two bars
  const int bar_width = std::clamp((columns - kFixedColumns) / 2, 4, 40);
  std::int64_t most_samples = 0;
  std::int64_t most_tokens = 0;
  for (const LengthBucket& bucket : histogram.buckets()) {
    most_samples = std::max(most_samples, bucket.num_samples);
    most_tokens = std::max(most_tokens, bucket.tokens.value());
  }
  std::string text = fmt::format("{:>14} {:>10} {:>6}  {:{}} {:>15} {:>6}\n", "length", "samples",
                                 "", "", bar_width, "tokens", "");
  bool is_started = false;
  for (std::size_t k = 0; k < histogram.buckets().size(); ++k) {
    const LengthBucket& bucket = histogram.buckets()[k];
    is_started = is_started || bucket.num_samples > 0;
    if (!is_started) continue;
    const std::int64_t low = std::int64_t{1} << k;
    const std::string limit = fmt::format("<{}", format_count(2 * low));
    const double samples = share_of(bucket.num_samples, histogram.num_samples());
    const double tokens = share_of(bucket.tokens.value(), histogram.num_tokens().value());
    text += fmt::format("{:>5} .. {:>5} {:>10} {:>5.1f}%  {} {:>15} {:>5.1f}%  {}\n",
                        format_count(low), limit, bucket.num_samples, 100 * samples,
                        bar(share_of(bucket.num_samples, most_samples), bar_width), bucket.tokens,
                        100 * tokens, bar(share_of(bucket.tokens.value(), most_tokens), bar_width));
  }
  return text;
}

}  // namespace weft
