#include "corpus/sequence_set.h"

#include <thread>

#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using SequenceSetTest = CorpusTest;

std::vector<std::int64_t> lengths_of(const SequenceSet& set) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < set.size(); ++i) lengths.push_back(set.sequence(i).tokens().value());
  return lengths;
}

std::vector<TokenId> read(const SequenceSet& set, std::int64_t id, TokenRange range, bool targets) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(range.size()));
  targets ? set.read_targets(id, range, tokens) : set.read_tokens(id, range, tokens);
  return tokens;
}

TEST_F(SequenceSetTest, DocumentsThatFitAreSequencesAsTheyAre) {
  const Corpus corpus = corpus_of_lengths("c", {2, 5, 3});
  const SequenceSet set(corpus, Tokens(5), OverLong::kError);
  EXPECT_THAT(lengths_of(set), ElementsAre(2, 5, 3));
  EXPECT_EQ(set.sequence(1), (SequenceInfo{1, {0, 5}, 4}));
  EXPECT_EQ(set.longest_sequence_idx(), 1);
  EXPECT_EQ(set.num_split_documents(), 0);
  EXPECT_EQ(set.num_chunks(), 0);
}

TEST_F(SequenceSetTest, TheErrorPolicyNamesDocumentLengthLimitAndWayOut) {
  const Corpus corpus = corpus_of_lengths("c", {10, 5000});
  EXPECT_THAT(user_error_of([&] { SequenceSet(corpus, Tokens(4096), OverLong::kError); }),
              AllOf(HasSubstr("document 1 "), HasSubstr("5000 tokens"),
                    HasSubstr("max_context is 4096"), HasSubstr("over_long = split")));
  EXPECT_THAT(user_error_of([&] { SequenceSet(corpus, Tokens(0), OverLong::kSplit); }),
              HasSubstr("at least 1 token"));
}

TEST_F(SequenceSetTest, TheSplitPolicyMakesChunksAndCountsThem) {  // C059
  const Corpus corpus = corpus_of_lengths("c", {10, 5000});
  const SequenceSet set(corpus, Tokens(4096), OverLong::kSplit);
  EXPECT_THAT(lengths_of(set), ElementsAre(10, 4096, 904));
  EXPECT_EQ(set.sequence(0), (SequenceInfo{0, {0, 10}, 9}));
  EXPECT_EQ(set.sequence(1), (SequenceInfo{1, {0, 4096}, 4096}));
  EXPECT_EQ(set.sequence(2), (SequenceInfo{1, {4096, 5000}, 903}));
  EXPECT_EQ(set.num_split_documents(), 1);
  EXPECT_EQ(set.num_chunks(), 2);
  EXPECT_EQ(set.longest_sequence_idx(), 1);
}

TEST_F(SequenceSetTest, SplittingLosesNoTokenAndNoTargetAtAnyContext) {
  const std::vector<std::int64_t> lengths = {7, 2, 8, 9, 3, 16, 17, 2};
  const Corpus corpus = corpus_of_lengths("c", lengths, 13);
  for (std::int64_t context = 1; context <= 18; ++context) {
    SCOPED_TRACE(context);
    const SequenceSet set(corpus, Tokens(context), OverLong::kSplit);
    std::vector<TokenId> all_tokens;
    std::vector<TokenId> all_targets;
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      const SequenceInfo info = set.sequence(i);
      EXPECT_LE(info.tokens(), Tokens(context));
      EXPECT_GE(info.tokens(), Tokens(1));
      longest = std::max(longest, info.tokens().value());
      const auto tokens = read(set, i, {0, info.range.size()}, false);
      const auto targets = read(set, i, {0, info.range.size()}, true);
      EXPECT_EQ(
          std::count_if(targets.begin(), targets.end(), [](TokenId t) { return t != kNoTarget; }),
          info.num_targets);
      all_tokens.insert(all_tokens.end(), tokens.begin(), tokens.end());
      all_targets.insert(all_targets.end(), targets.begin(), targets.end());
    }
    EXPECT_EQ(all_tokens, tokens_of(corpus));
    EXPECT_EQ(set.sequence(set.longest_sequence_idx()).tokens().value(), longest);
    for (std::size_t i = 0; i < all_tokens.size(); ++i) {
      const TokenId expected = all_tokens[i] == kByteEndToken ? kNoTarget : all_tokens[i + 1];
      EXPECT_EQ(all_targets[i], expected) << "position " << i;
    }
  }
}

TEST_F(SequenceSetTest, EverySubRangeReadsItsOwnTokensAndTargets) {
  const Corpus corpus = corpus_of_lengths("c", {6, 11, 4}, 5);
  const SequenceSet set(corpus, Tokens(7), OverLong::kSplit);
  for (std::int64_t id = 0; id < 3 * set.size(); ++id) {
    const SequenceInfo info = set.sequence(id % set.size());
    for (const bool targets : {false, true}) {
      const auto whole = read(set, id, {0, info.range.size()}, targets);
      for (std::int64_t begin = 0; begin <= info.range.size(); ++begin) {
        for (std::int64_t end = begin; end <= info.range.size(); ++end) {
          const std::vector<TokenId> expected(whole.begin() + begin, whole.begin() + end);
          EXPECT_EQ(read(set, id, {begin, end}, targets), expected);
        }
      }
    }
  }
}

TEST_F(SequenceSetTest, UnknownIdsAndRangesOutsideAreRefused) {
  const Corpus corpus = corpus_of_lengths("c", {3});
  const SequenceSet set(corpus, Tokens(3), OverLong::kError);
  EXPECT_THAT(user_error_of([&] { read(set, -1, {0, 1}, false); }),
              HasSubstr("unknown sequence id -1"));
  EXPECT_THROW(read(set, 0, {2, 4}, false), InternalError);
  EXPECT_THROW(read(set, 0, {-1, 1}, true), InternalError);
  std::vector<TokenId> too_small(1);
  EXPECT_THROW(set.read_tokens(0, {0, 2}, too_small), InternalError);
}

TEST_F(SequenceSetTest, ManyThreadsReadTheSameSet) {
  const Corpus corpus = corpus_of_lengths("c", {50, 3, 70, 20}, 11);
  const SequenceSet set(corpus, Tokens(16), OverLong::kSplit);
  std::vector<std::vector<TokenId>> expected;
  for (std::int64_t i = 0; i < set.size(); ++i)
    expected.push_back(read(set, i, {0, set.sequence(i).range.size()}, true));
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        for (std::int64_t i = 0; i < set.size(); ++i) {
          if (read(set, i, {0, set.sequence(i).range.size()}, true) !=
              expected[static_cast<std::size_t>(i)])
            ++count;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(OverLongTest, PoliciesAreReadByNameAndOthersRefused) {
  EXPECT_EQ(parse_over_long("error", "x"), OverLong::kError);
  EXPECT_EQ(parse_over_long(to_string(OverLong::kSplit), "x"), OverLong::kSplit);
  EXPECT_THAT(user_error_of([] { parse_over_long("truncate", "data.over_long"); }),
              AllOf(HasSubstr("data.over_long"), HasSubstr("truncate"), HasSubstr("split")));
}

}  // namespace
}  // namespace weft
