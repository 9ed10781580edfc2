#include "sim/pass_engine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft {

PassEngine::PassEngine(const StepPlan& plan, const SlotTimes& times,
                       std::span<const std::int32_t> slot_order, LinkLoad load)
    : plan_(plan),
      times_(times),
      slot_order_(slot_order),
      load_(std::move(load)),
      num_stages_(plan.pipeline_stages),
      num_chunks_(plan.virtual_stages),
      num_virtual_stages_(plan.pipeline_stages * plan.virtual_stages),
      num_forward_(static_cast<std::int64_t>(slot_order.size()) * num_virtual_stages_),
      order_(plan.pipeline_stages, plan.virtual_stages),
      place_of_slot_(slot_order.size()),
      passes_(2 * static_cast<std::size_t>(num_forward_)),
      devices_(plan.ranks.size() * static_cast<std::size_t>(plan.pipeline_stages)),
      held_(devices_.size(), HeldPasses(plan.virtual_stages)),
      slowdown_(times.routes().size(), 1.0) {
  WEFT_CHECK_EQ(slot_order.size(), static_cast<std::size_t>(plan.num_slots), "slot order");
  for (std::size_t place = 0; place < slot_order.size(); ++place)
    place_of_slot_[static_cast<std::size_t>(slot_order[place])] = static_cast<std::int32_t>(place);
}

void PassEngine::run(const std::function<void(const FinishedPass&)>& done) {
  if (num_chunks_ > 1) set_priorities();
  count_waits();
  std::size_t num_done = 0;
  enqueue_ready();
  while (!ends_.empty()) {
    now_ = ends_.top().time;
    while (!ends_.empty() && ends_.top().time == now_) {
      const End end = ends_.top();
      ends_.pop();
      if (passes_[static_cast<std::size_t>(end.pass)].version != end.version) continue;
      finish(end.pass, done);
      ++num_done;
    }
    enqueue_ready();
  }
  WEFT_CHECK_EQ(num_done, passes_.size(), "passes that could run");
}

std::int64_t PassEngine::pass_id(std::int32_t place, std::int32_t virtual_stage,
                                 bool is_forward) const {
  return std::int64_t{place} * num_virtual_stages_ + virtual_stage +
         (is_forward ? 0 : num_forward_);
}

std::int32_t PassEngine::place_of(std::int64_t pass) const {
  return static_cast<std::int32_t>(pass % num_forward_ / num_virtual_stages_);
}

std::int32_t PassEngine::virtual_stage_of(std::int64_t pass) const {
  return static_cast<std::int32_t>(pass % num_forward_ % num_virtual_stages_);
}

std::int32_t PassEngine::slot_of(std::int64_t pass) const {
  return slot_order_[static_cast<std::size_t>(place_of(pass))];
}

std::int32_t PassEngine::place_of_micro_batch(std::int32_t rank, std::int64_t idx) const {
  const auto& list = plan_.ranks[static_cast<std::size_t>(rank)];
  if (idx < 0 || idx >= static_cast<std::int64_t>(list.size())) return -1;
  return place_of_slot_[static_cast<std::size_t>(list[static_cast<std::size_t>(idx)].slot_idx)];
}

std::size_t PassEngine::device_idx(std::int32_t rank, std::int32_t stage) const {
  return static_cast<std::size_t>(rank) * static_cast<std::size_t>(num_stages_) +
         static_cast<std::size_t>(stage);
}

void PassEngine::set_priorities() {
  const std::vector<std::int64_t> levels = slot_levels(plan_, slot_order_);
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    passes_[i].priority = order_.priority(levels[static_cast<std::size_t>(slot_of(id))],
                                          stage_of(id), chunk_of(id), is_forward(id));
  }
}

void PassEngine::count_waits() {
  for (std::int32_t place = 0; place < plan_.num_slots; ++place) {
    for (std::int32_t stage = 0; stage < num_virtual_stages_; ++stage) {
      const std::int64_t id = pass_id(place, stage, true);
      Pass& forward = passes_[static_cast<std::size_t>(id)];
      Pass& backward = passes_[static_cast<std::size_t>(pass_id(place, stage, false))];
      forward.waits_for = stage > 0 ? 1 : 0;
      backward.waits_for = 1;
      const std::int64_t most_held = order_.most_held(stage_of(id));
      for (const SlotMember& member : times_.members(slot_of(id))) {
        if (member.micro_batch_idx > 0) {
          ++forward.waits_for;
          ++backward.waits_for;
        }
        if (order_.forward_number(member.micro_batch_idx, chunk_of(id)) >= most_held)
          ++forward.waits_for;
      }
      if (forward.waits_for == 0) ready_.push_back(id);
    }
  }
}

void PassEngine::enqueue_ready() {
  std::sort(ready_.begin(), ready_.end());
  const auto by_priority = [this](std::int64_t a, std::int64_t b) {
    return passes_[static_cast<std::size_t>(a)].priority <
           passes_[static_cast<std::size_t>(b)].priority;
  };
  for (const std::int64_t id : ready_) {
    Pass& pass = passes_[static_cast<std::size_t>(id)];
    pass.ready = now_;
    if (num_chunks_ == 1) pass.priority = num_queued_++;
    for (const SlotMember& member : times_.members(slot_of(id))) {
      const std::size_t idx = device_idx(member.rank, stage_of(id));
      std::deque<std::int64_t>& queue = devices_[idx].queue;
      queue.insert(std::upper_bound(queue.begin(), queue.end(), id, by_priority), id);
      changed_.push_back(idx);
    }
  }
  ready_.clear();
  offer_devices();
  update_slowdowns();
}

// Every free device to the first pass of its queue; passes that have all of theirs start.
void PassEngine::offer_devices() {
  for (const std::size_t idx : changed_) {
    Device& device = devices_[idx];
    if (device.is_busy || device.queue.empty() || device.queue.front() == device.offered_to)
      continue;
    if (device.offered_to >= 0) --passes_[static_cast<std::size_t>(device.offered_to)].heads;
    device.offered_to = device.queue.front();
    ++passes_[static_cast<std::size_t>(device.offered_to)].heads;
    offered_.push_back(device.offered_to);
  }
  changed_.clear();
  std::sort(offered_.begin(), offered_.end());
  offered_.erase(std::unique(offered_.begin(), offered_.end()), offered_.end());
  for (const std::int64_t id : offered_) {
    if (passes_[static_cast<std::size_t>(id)].heads ==
        static_cast<std::int32_t>(times_.members(slot_of(id)).size()))
      start(id);
  }
  offered_.clear();
}

void PassEngine::start(std::int64_t id) {
  Pass& pass = passes_[static_cast<std::size_t>(id)];
  for (const SlotMember& member : times_.members(slot_of(id))) {
    Device& where = devices_[device_idx(member.rank, stage_of(id))];
    where.is_busy = true;
    where.offered_to = -1;
    where.queue.pop_front();
  }
  pass.start = pass.updated = now_;
  take_links(id, true);
  pass.duration = pass.remaining = duration_of(id);
  reschedule(id, pass.duration);
}

void PassEngine::finish(std::int64_t id, const std::function<void(const FinishedPass&)>& done) {
  Pass& pass = passes_[static_cast<std::size_t>(id)];
  ++pass.version;
  pass.remaining = 0;
  take_links(id, false);
  done({.slot_idx = slot_of(id),
        .stage = stage_of(id),
        .chunk = chunk_of(id),
        .is_backward = !is_forward(id),
        .ready = Nanoseconds(pass.ready),
        .start = Nanoseconds(pass.start),
        .end = Nanoseconds(now_),
        .slowdown = pass.slowdown});
  for (const SlotMember& member : times_.members(slot_of(id))) {
    const std::size_t idx = device_idx(member.rank, stage_of(id));
    devices_[idx].is_busy = false;
    changed_.push_back(idx);
  }
  release_after(id);
}

void PassEngine::release_after(std::int64_t id) {
  const std::int32_t place = place_of(id);
  const std::int32_t virtual_stage = virtual_stage_of(id);
  const std::int32_t stage = stage_of(id);
  const bool forward = is_forward(id);
  if (forward) {
    const bool is_last = virtual_stage == num_virtual_stages_ - 1;
    release(place, is_last ? virtual_stage : virtual_stage + 1, !is_last);
  } else if (virtual_stage > 0) {
    release(place, virtual_stage - 1, false);
  }
  for (const SlotMember& member : times_.members(slot_of(id))) {
    const std::int32_t next = place_of_micro_batch(member.rank, member.micro_batch_idx + 1);
    if (next >= 0) release(next, virtual_stage, forward);
    if (forward) continue;
    const auto num_micro_batches =
        static_cast<std::int64_t>(plan_.ranks[static_cast<std::size_t>(member.rank)].size());
    held_[device_idx(member.rank, stage)].end_backward(
        order_, stage, chunk_of(id), num_micro_batches, [&](std::int64_t idx, std::int32_t chunk) {
          release(place_of_micro_batch(member.rank, idx), chunk * num_stages_ + stage, true);
        });
  }
}

void PassEngine::release(std::int32_t place, std::int32_t virtual_stage, bool is_forward) {
  const std::int64_t id = pass_id(place, virtual_stage, is_forward);
  if (--passes_[static_cast<std::size_t>(id)].waits_for == 0) ready_.push_back(id);
}

// At the present load of its links.
std::int64_t PassEngine::duration_of(std::int64_t id) {
  const std::int32_t slot = slot_of(id);
  const std::int32_t stage = stage_of(id);
  Pass& pass = passes_[static_cast<std::size_t>(id)];
  pass.slowdown = 1;
  for (const std::int32_t ring : times_.routed_rings(slot)) {
    const double slower =
        load_.slowdown(stage, times_.routes()[static_cast<std::size_t>(ring)].sender_nodes);
    slowdown_[static_cast<std::size_t>(ring)] = slower;
    pass.slowdown = std::max(pass.slowdown, slower);
  }
  const PassTime time = times_.pass_time(slot, virtual_stage_of(id), slowdown_);
  for (const std::int32_t ring : times_.routed_rings(slot))
    slowdown_[static_cast<std::size_t>(ring)] = 1;
  return (is_forward(id) ? time.forward : time.backward).value();
}

// The share of a layer's time in which the ring's hops are on their way, if nothing slows them.
std::int64_t PassEngine::link_weight(std::int64_t id, std::int32_t ring) const {
  double exchange = 0;
  double layer = 0;
  for (const SlotMember& member : times_.members(slot_of(id))) {
    double exposed = 0;
    for (const RingPart& part : times_.parts(member)) {
      if (part.ring == ring) exchange = std::max(exchange, part.exchange_ns);
      exposed += std::max(0.0, part.exchange_ns - part.hidden_ns);
    }
    layer = std::max(layer, member.compute_ns + exposed);
  }
  const double share = layer > 0 ? std::min(1.0, exchange / layer) : 1.0;
  return static_cast<std::int64_t>(share * static_cast<double>(LinkLoad::kWhole));
}

void PassEngine::take_links(std::int64_t id, bool add) {
  if (!load_.is_limited()) return;
  const std::int32_t stage = stage_of(id);
  for (const std::int32_t ring : times_.routed_rings(slot_of(id))) {
    const auto& nodes = times_.routes()[static_cast<std::size_t>(ring)].sender_nodes;
    const std::int64_t weight = link_weight(id, ring);
    if (add) {
      load_.add(stage, nodes, weight, id);
    } else {
      load_.remove(stage, nodes, weight, id);
    }
    load_.users(stage, nodes, touched_);
  }
}

void PassEngine::update_slowdowns() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const std::int64_t id : touched_) {
    Pass& pass = passes_[static_cast<std::size_t>(id)];
    const bool is_running = pass.start >= 0 && pass.remaining > 0;
    if (!is_running) continue;
    const std::int64_t before = pass.duration;
    const std::int64_t duration = duration_of(id);
    if (duration != before) reschedule(id, duration);
  }
  touched_.clear();
}

// The rest of the pass, in proportion, at its new duration.
void PassEngine::reschedule(std::int64_t id, std::int64_t duration) {
  Pass& pass = passes_[static_cast<std::size_t>(id)];
  const std::int64_t rest = pass.remaining - (now_ - pass.updated);
  pass.remaining =
      pass.duration > 0
          ? static_cast<std::int64_t>((static_cast<__int128>(rest) * duration + pass.duration - 1) /
                                      pass.duration)
          : duration;
  pass.updated = now_;
  pass.duration = duration;
  ++pass.version;
  std::int64_t end = now_;
  WEFT_USER_CHECK(!__builtin_add_overflow(now_, pass.remaining, &end),
                  "simulate: the time in nanoseconds exceeds 2^63; simulate fewer or shorter "
                  "sequences");
  ends_.push({.time = end, .pass = id, .version = pass.version});
}

}  // namespace weft
