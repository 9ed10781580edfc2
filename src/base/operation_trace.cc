#include "base/operation_trace.h"

#include <utility>

namespace weft {

OperationTrace::OperationTrace()
    : OperationTrace([] { return std::chrono::steady_clock::now().time_since_epoch(); }) {}

void OperationTrace::start() {
  operations_.clear();
  inside_ns_.clear();
  began_ = read_clock_();
  recording_ = true;
}

std::vector<Operation> OperationTrace::stop() {
  recording_ = false;
  return std::exchange(operations_, {});
}

OperationScope::OperationScope(const OperationSite& site, OperationKind kind, std::string_view pass,
                               std::int64_t flops)
    : trace_(site.trace != nullptr && site.trace->recording() ? site.trace : nullptr) {
  if (trace_ == nullptr) return;
  operation_ = {.name = site.name,
                .pass = pass,
                .kind = kind,
                .layer = site.layer,
                .start_ns = trace_->now_ns(),
                .flops = flops};
  trace_->inside_ns_.push_back(0);
}

OperationScope::~OperationScope() {
  // A recording that ended meanwhile has no place for this operation any more.
  if (trace_ == nullptr || !trace_->recording() || trace_->inside_ns_.empty()) return;
  operation_.duration_ns = trace_->now_ns() - operation_.start_ns;
  operation_.inside_ns = trace_->inside_ns_.back();
  trace_->inside_ns_.pop_back();
  if (!trace_->inside_ns_.empty()) trace_->inside_ns_.back() += operation_.duration_ns;
  trace_->operations_.push_back(operation_);
}

}  // namespace weft
