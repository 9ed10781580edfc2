// WholePool: the sequences of a step that run whole on one rank, handed out longest first to fill a
// given room of tokens and time. Sequences of one length are alike: what is searched are lengths,
// of which there are few.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cost_model.h"
#include "plan/strip_schedule.h"

namespace weft {

class WholePool {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // `whole`: longest first, each within the capacity.
  WholePool(std::span<const SequenceSpec> sequences, std::span<const WholeRun> whole,
            const CostModel& cost, Tokens capacity);

  // The longest length left of at most `room` tokens that takes at most `ns` at speed 1, fixed cost
  // left out; kNone when there is none.
  std::size_t longest_within(Tokens room, std::int64_t ns);
  std::size_t longest() { return next_from(0); }  // kNone when nothing is left
  // How many of the length are left.
  std::int64_t num_of(std::size_t length) const { return lengths_[length].left.count; }
  // The first `count` of the length that are left. REQUIRES: there are as many.
  WholeRun take(std::size_t length, std::int32_t count);

  std::size_t num_left() const { return num_left_; }
  std::int64_t left_ns() const { return left_ns_; }
  Tokens left_tokens() const { return left_tokens_; }
  std::int64_t fixed_ns() const { return fixed_ns_; }  // of a micro-batch at speed 1
  std::int64_t ns(std::size_t length) const { return lengths_[length].ns; }
  Tokens tokens(std::size_t length) const { return lengths_[length].tokens; }

 private:
  struct Length {
    Tokens tokens;
    std::int64_t ns = 0;
    WholeRun left;
  };

  std::size_t next_from(std::size_t length);
  std::size_t first_at_most(Tokens room) const;

  std::vector<Length> lengths_;         // tokens and ns descending
  std::vector<std::uint32_t> next_;     // [lengths + 1]: union-find towards the next one left
  std::vector<std::uint32_t> at_most_;  // [capacity + 1] or empty: first length within a room
  std::int64_t left_ns_ = 0;
  Tokens left_tokens_;
  std::size_t num_left_ = 0;
  std::int64_t fixed_ns_ = 0;
};

}  // namespace weft
