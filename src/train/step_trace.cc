#include "train/step_trace.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "base/chrome_trace.h"
#include "base/error.h"
#include "comm/gather_text.h"

namespace weft {
namespace {

static_assert(std::is_trivially_copyable_v<KindTotals>);
constexpr std::size_t kTotalsBytes = sizeof(RankTrace::kinds) + sizeof(double);

void append_event(const Operation& operation, Rank rank, std::string& text) {
  if (!text.empty()) text += ",\n";
  text += chrome_event(
      {.name =
           fmt::format("{}{}{}", operation.name, operation.pass.empty() ? "" : " ", operation.pass),
       .category = kOperationKindNames[static_cast<std::size_t>(operation.kind)],
       .process = rank.value(),
       .start_ns = operation.start_ns,
       .duration_ns = operation.duration_ns,
       .arguments = fmt::format(R"("layer":{},"own_us":{:.3f},"flops":{})", operation.layer,
                                1e-3 * static_cast<double>(operation.own_ns()), operation.flops)});
}

// Totals as bytes, then the events: one text for each rank.
std::string pack(const RankTrace& trace) {
  std::string text(kTotalsBytes, '\0');
  std::memcpy(text.data(), trace.kinds.data(), sizeof(trace.kinds));
  std::memcpy(text.data() + sizeof(trace.kinds), &trace.step_s, sizeof(double));
  return text + trace.events;
}

RankTrace unpack(const std::string& text) {
  WEFT_CHECK(text.size() >= kTotalsBytes, "a rank's trace has {} bytes, its totals alone have {}",
             text.size(), kTotalsBytes);
  RankTrace trace;
  std::memcpy(trace.kinds.data(), text.data(), sizeof(trace.kinds));
  std::memcpy(&trace.step_s, text.data() + sizeof(trace.kinds), sizeof(double));
  trace.events = text.substr(kTotalsBytes);
  return trace;
}

std::string line(std::string_view name, double own_s, double step_s, std::string_view rest) {
  return fmt::format("        {:<20}{:>10.3f} ms{:>7.1f} %{}\n", name, 1e3 * own_s,
                     100 * own_s / step_s, rest);
}

}  // namespace

RankTrace summarise(std::span<const Operation> operations, double step_s, Rank rank) {
  RankTrace trace;
  trace.step_s = step_s;
  for (const Operation& operation : operations) {
    KindTotals& totals = trace.kinds[static_cast<std::size_t>(operation.kind)];
    const double own_s = 1e-9 * static_cast<double>(operation.own_ns());
    totals.own_s += own_s;
    ++totals.count;
    if (operation.flops > 0) {
      totals.flops += static_cast<double>(operation.flops);
      totals.flops_s += own_s;
    }
    append_event(operation, rank, trace.events);
  }
  return trace;
}

std::vector<RankTrace> gather_traces(Communicator& comm, const RankTrace& mine, std::int64_t step) {
  std::vector<RankTrace> traces;
  for (const std::string& text :
       gather_texts(comm, pack(mine), {.operation = "step trace", .step = step})) {
    traces.push_back(unpack(text));
  }
  return traces;
}

std::string chrome_trace(std::span<const RankTrace> ranks, std::int64_t step) {
  std::string text = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"step\":{}}},\"traceEvents\":[", step);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    text += (r == 0 ? "\n" : ",\n") +
            chrome_process_name(static_cast<std::int64_t>(r), fmt::format("rank {}", r));
    if (!ranks[r].events.empty()) text += ",\n" + ranks[r].events;
  }
  return text + "\n]}\n";
}

std::string breakdown(std::span<const RankTrace> ranks, double peak_flops_per_s_of_a_rank) {
  const double num_ranks = static_cast<double>(ranks.size());
  double step_s = 0, traced_s = 0;
  std::array<KindTotals, kOperationKindNames.size()> sums;
  for (const RankTrace& rank : ranks) {
    step_s += rank.step_s / num_ranks;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      sums[k].own_s += rank.kinds[k].own_s / num_ranks;
      sums[k].flops += rank.kinds[k].flops / num_ranks;
      sums[k].flops_s += rank.kinds[k].flops_s / num_ranks;
      sums[k].count += rank.kinds[k].count;
    }
  }
  std::string text;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    traced_s += sums[k].own_s;
    if (sums[k].count == 0) continue;
    const double rate = sums[k].flops_s > 0 ? sums[k].flops / sums[k].flops_s : 0;
    text += line(kOperationKindNames[k], sums[k].own_s, step_s,
                 rate > 0 ? fmt::format("{:>9.1f} GFLOP/s, {:.0f} % of the peak", 1e-9 * rate,
                                        100 * rate / peak_flops_per_s_of_a_rank)
                          : std::string());
  }
  return text + line("between operations", step_s - traced_s, step_s, "");
}

}  // namespace weft
