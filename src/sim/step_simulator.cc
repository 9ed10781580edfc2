#include "sim/step_simulator.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "cost/shape_cost.h"
#include "plan/pipeline_time.h"
#include "plan/slot_order.h"
#include "sim/pass_engine.h"
#include "sim/slot_times.h"

namespace weft {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// What each device did and held so far, pass by pass.
class StepRecord {
 public:
  StepRecord(const SimulationInput& input, const SlotTimes& times)
      : input_(input),
        times_(times),
        num_stages_(input.plan->pipeline_stages),
        devices_(input.plan->ranks.size() * at(num_stages_)),
        last_end_(input.plan->ranks.size()),
        slowdown_(times.routes().size(), 1.0) {
    timeline_.strategy = input.plan->strategy;
    timeline_.cost = input.cost->name;
    timeline_.step = input.plan->step;
    timeline_.num_ranks = input.plan->num_ranks;
    timeline_.pipeline_stages = num_stages_;
    timeline_.virtual_stages = input.plan->virtual_stages;
    timeline_.peak_bytes.assign(input.plan->ranks.size(), 0);
    for (const SequenceSpec& sequence : input.plan->sequences)
      timeline_.tokens += sequence.tokens.value();
  }

  void add(const FinishedPass& pass) {
    for (const std::int32_t ring : times_.routed_rings(pass.slot_idx))
      slowdown_[at(ring)] = pass.slowdown;
    for (const SlotMember& member : times_.members(pass.slot_idx)) {
      hold(pass, member);
      add_gap(pass, device(member.rank, pass.stage));
      add_parts(pass, member);
      last_end_[at(member.rank)] = std::max(last_end_[at(member.rank)], pass.end);
    }
    for (const std::int32_t ring : times_.routed_rings(pass.slot_idx)) slowdown_[at(ring)] = 1;
    timeline_.micro_batches_time = std::max(timeline_.micro_batches_time, pass.end);
  }

  Timeline finish();

 private:
  struct Device {
    Nanoseconds free_at;
    double tokens = 0;  // layers' worth of resident tokens, now
    double peak_bytes = 0;
  };

  Device& device(std::int32_t rank, std::int32_t stage) {
    return devices_[at(rank) * at(num_stages_) + at(stage)];
  }

  std::int32_t virtual_stage(const FinishedPass& pass) const {
    return pass.chunk * num_stages_ + pass.stage;
  }

  std::int32_t layers_of(const FinishedPass& pass) const {
    return layers_of_stage(input_.cost->num_layers, num_stages_ * input_.plan->virtual_stages,
                           virtual_stage(pass));
  }

  // Memory: from the forward pass to the end of the backward pass. Passes are added by their ends,
  // and a forward pass ends after every backward pass that its device ran before it.
  void hold(const FinishedPass& pass, const SlotMember& member) {
    Device& where = device(member.rank, pass.stage);
    const double resident =
        resident_tokens(member.tokens, member.offload_ratio, input_.cost->num_layers) *
        layers_of(pass) / input_.cost->num_layers;
    where.tokens += pass.is_backward ? -resident : resident;
    if (pass.is_backward) return;
    const MemorySpec& memory = input_.memory;
    double bytes = memory.state_bytes + memory.token_bytes * where.tokens;
    if (virtual_stage(pass) == num_stages_ * input_.plan->virtual_stages - 1)
      bytes += memory.logits_token_bytes * static_cast<double>(member.tokens.value());
    where.peak_bytes = std::max(where.peak_bytes, bytes);
  }

  void add_gap(const FinishedPass& pass, Device& where) {
    const Nanoseconds gap = pass.start - where.free_at;
    // While nothing was ready the pipeline of the rank itself held it up.
    const Nanoseconds own = num_stages_ == 1
                                ? Nanoseconds(0)
                                : std::clamp(pass.ready - where.free_at, Nanoseconds(0), gap);
    pipeline_ns_ += static_cast<double>(own.value());
    waiting_ns_ += static_cast<double>((gap - own).value());
    where.free_at = pass.end;
  }

  void add_parts(const FinishedPass& pass, const SlotMember& member) {
    const Nanoseconds whole = pass.end - pass.start;
    const double layers = layers_of(pass);
    const double passes = pass.is_backward ? input_.cost->backward_ratio : 1.0;
    const auto part = [](double ns, Nanoseconds most) {
      return std::min(most, Nanoseconds(static_cast<std::int64_t>(ns)));
    };
    const double exposed = pass.is_backward ? times_.exposed_backward_ns(member, slowdown_)
                                            : times_.exposed_ns(member, slowdown_);
    const double layer = passes * member.compute_ns + exposed;
    const double copied = std::max(0.0, layers - 2) * std::max(0.0, member.copy_ns - layer);
    const Nanoseconds compute = part(layers * passes * member.compute_ns + 0.5, whole);
    const Nanoseconds exchange = part(layers * exposed, whole - compute);
    const Nanoseconds offload =
        member.offload_ratio > 0 ? part(copied, whole - compute - exchange) : Nanoseconds(0);
    const Nanoseconds wait = whole - compute - exchange - offload;
    compute_ns_ += static_cast<double>(compute.value());
    exchange_ns_ += static_cast<double>(exchange.value());
    offload_ns_ += static_cast<double>(offload.value());
    waiting_ns_ += static_cast<double>(wait.value());
    if (!input_.keep_events) return;
    Nanoseconds time = pass.start;
    const auto record = [&](Activity activity, Nanoseconds duration) {
      if (duration == Nanoseconds(0)) return;
      timeline_.events.push_back({.rank = member.rank,
                                  .stage = pass.stage,
                                  .activity = activity,
                                  .micro_batch_idx = member.micro_batch_idx,
                                  .slot_idx = pass.slot_idx,
                                  .start = time,
                                  .end = time + duration,
                                  .chunk = pass.chunk});
      time += duration;
    };
    record(pass.is_backward ? Activity::kBackward : Activity::kForward, compute);
    record(Activity::kExchange, exchange);
    record(Activity::kOffload, offload);
    record(Activity::kWaitGroup, wait);
  }

  void add_tails();
  void add_step_end();
  void count_bytes();
  void split_time();

  const SimulationInput& input_;
  const SlotTimes& times_;
  std::int32_t num_stages_;
  std::vector<Device> devices_;        // [ranks][stages]
  std::vector<Nanoseconds> last_end_;  // [ranks]
  std::vector<double> slowdown_;       // [rings]
  Timeline timeline_;
  StepEnd end_;
  // Sums over devices; a day of 16,384 devices is 1.4e18 ns, so as doubles.
  double compute_ns_ = 0;
  double exchange_ns_ = 0;
  double offload_ns_ = 0;
  double waiting_ns_ = 0;
  double pipeline_ns_ = 0;
};

Timeline StepRecord::finish() {
  add_tails();
  add_step_end();
  count_bytes();
  split_time();
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    double& peak = timeline_.peak_bytes[d / at(num_stages_)];
    peak = std::max({peak, devices_[d].peak_bytes, input_.memory.state_bytes});
  }
  std::sort(timeline_.events.begin(), timeline_.events.end(),
            [](const TimelineEvent& a, const TimelineEvent& b) {
              return std::tuple(a.rank, a.stage, a.start) < std::tuple(b.rank, b.stage, b.start);
            });
  return std::move(timeline_);
}

// From a device's last pass to its rank's last (its pipeline's bubble), and on to the last rank's.
void StepRecord::add_tails() {
  for (std::int32_t rank = 0; rank < timeline_.num_ranks; ++rank) {
    for (std::int32_t stage = 0; stage < num_stages_; ++stage) {
      const Nanoseconds own = last_end_[at(rank)] - device(rank, stage).free_at;
      pipeline_ns_ += static_cast<double>(own.value());
      waiting_ns_ +=
          static_cast<double>((timeline_.micro_batches_time - last_end_[at(rank)]).value());
    }
  }
}

void StepRecord::add_step_end() {
  end_ = step_end(input_.end, timeline_.num_ranks, input_.cluster->ranks_per_node);
  timeline_.step_time = timeline_.micro_batches_time;
  for (const auto& [activity, duration] : {std::pair(Activity::kReduce, end_.reduce_scatter),
                                           {Activity::kOptimizer, end_.optimizer},
                                           {Activity::kReduce, end_.all_gather}}) {
    const Nanoseconds start = timeline_.step_time;
    timeline_.step_time += duration;
    if (!input_.keep_events || duration == Nanoseconds(0)) continue;
    for (std::int32_t rank = 0; rank < timeline_.num_ranks; ++rank) {
      for (std::int32_t stage = 0; stage < num_stages_; ++stage) {
        timeline_.events.push_back({.rank = rank,
                                    .stage = stage,
                                    .activity = activity,
                                    .start = start,
                                    .end = timeline_.step_time});
      }
    }
  }
}

void StepRecord::count_bytes() {
  const CostModel& cost = *input_.cost;
  const double layer_bytes = cost.kv_bytes_per_token * cost.num_layers;
  for (const RingRoute& route : times_.routes()) {
    timeline_.bytes.node_exchange += route.node_tokens * layer_bytes;
    timeline_.bytes.nic_exchange += route.nic_tokens * layer_bytes;
  }
  const auto num_devices = static_cast<double>(devices_.size());
  timeline_.bytes.node_reduction = end_.node_bytes * num_devices;
  timeline_.bytes.nic_reduction = end_.nic_bytes * num_devices;
  const double copied_layers = std::max(0, cost.num_layers - 2);
  for (const auto& list : input_.plan->ranks) {
    for (const MicroBatch& m : list) {
      if (m.offload_ratio == 0) continue;
      timeline_.bytes.host_copies += 2 * m.offload_ratio * static_cast<double>(m.tokens().value()) *
                                     cost.activation_bytes_per_token * copied_layers;
    }
  }
}

void StepRecord::split_time() {
  const double all =
      static_cast<double>(timeline_.step_time.value()) * static_cast<double>(devices_.size());
  if (all <= 0) return;
  const double devices = static_cast<double>(devices_.size());
  timeline_.split = {
      .compute = compute_ns_ / all,
      .exposed_exchange = exchange_ns_ / all,
      .exposed_offload = offload_ns_ / all,
      .data_parallel_bubble = waiting_ns_ / all,
      .pipeline_bubble = pipeline_ns_ / all,
      .reduction =
          static_cast<double>((end_.reduce_scatter + end_.all_gather).value()) * devices / all,
      .optimizer = static_cast<double>(end_.optimizer.value()) * devices / all};
}

void check_input(const SimulationInput& input) {
  const StepPlan& plan = *input.plan;
  validate(*input.cluster);
  WEFT_USER_CHECK(
      input.cluster->num_ranks == plan.num_ranks &&
          input.cluster->pipeline_stages == plan.pipeline_stages &&
          input.cluster->virtual_stages == plan.virtual_stages,
      "simulate: the plan is for {} ranks of {} x {} stages, the cluster has {} of {} x {}; plan "
      "again for this cluster",
      plan.num_ranks, plan.pipeline_stages, plan.virtual_stages, input.cluster->num_ranks,
      input.cluster->pipeline_stages, input.cluster->virtual_stages);
  WEFT_USER_CHECK(plan.pipeline_stages <= input.cost->num_layers,
                  "simulate: {} pipeline stages for the {} layers of '{}'", plan.pipeline_stages,
                  input.cost->num_layers, input.cost->name);
  check_virtual_stages(plan.pipeline_stages, plan.virtual_stages, input.cost->num_layers,
                       input.cost->name);
  if (plan.pipeline_stages == 1) return;
  for (const auto& list : plan.ranks) {
    for (const MicroBatch& m : list) {
      WEFT_USER_CHECK(m.offload_ratio == 0,
                      "simulate: a micro-batch offloads activations; its time is not known in "
                      "pipelines (here of {} stages)",
                      plan.pipeline_stages);
    }
  }
}

}  // namespace

Timeline simulate_step(const SimulationInput& input) {
  check_input(input);
  const SlotTimes times(input);
  const SlotOrder order = order_slots(*input.plan);
  WEFT_USER_CHECK(order.cycle.empty(), "simulate: cycle of slots: {}", describe_cycle(order.cycle));
  StepRecord record(input, times);
  LinkLoad load(input.plan->pipeline_stages, input.cluster->num_nodes(),
                input.links.full_speed_rings);
  PassEngine engine(*input.plan, times, order.slots, std::move(load));
  engine.run([&](const FinishedPass& pass) { record.add(pass); });
  return record.finish();
}

}  // namespace weft
