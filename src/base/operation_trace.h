// OperationTrace: what one rank computed and waited for, operation by operation, while it is told
// to record. Without a trace, or between recordings, an operation costs one branch.
//
// Operations nest; own_ns() of an operation leaves out those inside it, so the own times of one
// recording never count a moment twice. Belongs to one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

enum class OperationKind : std::uint8_t {
  kProduct,      // matrix products
  kAttention,    // kernels on queries, keys and values
  kElementwise,  // norms, rotation, activation, residual, embedding
  kLoss,         // softmax over the vocabulary
  kExchange,     // blocked on ring messages
  kData,         // packing a micro-batch
  kReduction,    // gradients over all ranks, waiting included
  kOptimizer,    // norm, clipping, update
};
inline constexpr std::array<std::string_view, 8> kOperationKindNames = {
    "matrix products",   "attention", "elementwise",        "softmax and loss",
    "exchange (waited)", "data",      "gradient reduction", "optimizer"};

struct Operation {
  std::string_view name = {};  // of static storage: "q_proj"
  std::string_view pass = {};  // of static storage: "forward"; may be empty
  OperationKind kind = OperationKind::kElementwise;
  std::int32_t layer = -1;    // -1: of no layer
  std::int64_t start_ns = 0;  // since the recording began
  std::int64_t duration_ns = 0;
  std::int64_t inside_ns = 0;  // of operations directly inside it
  std::int64_t flops = 0;      // 0: not counted
  std::int64_t own_ns() const { return duration_ns - inside_ns; }
};

class OperationTrace {
 public:
  using ReadClock = std::function<std::chrono::nanoseconds()>;

  // By the steady clock, or by that of the rank whose operations these are: one that shares a core
  // with others has a time of its own.
  OperationTrace();
  explicit OperationTrace(ReadClock read_clock) : read_clock_(std::move(read_clock)) {}

  void start();
  // In the order in which they ended.
  std::vector<Operation> stop();
  bool recording() const { return recording_; }

 private:
  friend class OperationScope;
  std::int64_t now_ns() const { return (read_clock_() - began_).count(); }

  ReadClock read_clock_;
  bool recording_ = false;
  std::chrono::nanoseconds began_{};
  std::vector<Operation> operations_;
  std::vector<std::int64_t> inside_ns_;  // of each operation that is going on, outermost first
};

// Where operations of one kind of thing are recorded; trace may be null.
struct OperationSite {
  OperationTrace* trace = nullptr;
  std::string_view name = {};
  std::int32_t layer = -1;
};

// One operation, from construction to destruction.
class OperationScope {
 public:
  OperationScope(const OperationSite& site, OperationKind kind, std::string_view pass = {},
                 std::int64_t flops = 0);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  OperationTrace* trace_;  // null: records nothing
  Operation operation_;
};

}  // namespace weft
