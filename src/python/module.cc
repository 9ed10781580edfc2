// The Python module weft._weft: lengths in as arrays, plans out as arrays. python/weft/__init__.py
// gives it its public face.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/error.h"
#include "corpus/workload.h"
#include "cost/reference_cost.h"
#include "plan/evaluate.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "plan/validate.h"

namespace py = pybind11;

namespace weft {
namespace {

using Int64Array = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

template <class T>
py::array_t<T> as_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

std::vector<std::int64_t> as_vector(const Int64Array& array, const char* name) {
  WEFT_USER_CHECK(array.ndim() == 1, "weft: {} has {} dimensions, expected 1", name, array.ndim());
  return {array.data(), array.data() + array.size()};
}

struct PyCluster {
  std::int32_t num_ranks = 1;
  std::int32_t ranks_per_node = 8;
  std::vector<double> speed;
  std::vector<double> memory;
};

PlanRequest request_of(const Int64Array& lengths, const PyCluster& cluster, std::int64_t capacity,
                       const std::string& strategy, std::int64_t max_context,
                       const std::string& cost, std::int64_t step, std::uint64_t seed,
                       const std::optional<Int64Array>& ids) {
  PlanRequest request;
  const std::vector<std::int64_t> tokens = as_vector(lengths, "lengths");
  std::vector<std::int64_t> own_ids;
  if (ids) own_ids = as_vector(*ids, "ids");
  WEFT_USER_CHECK(!ids || own_ids.size() == tokens.size(), "weft: {} ids for {} lengths",
                  own_ids.size(), tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    request.sequences.push_back({.id = ids ? own_ids[i] : static_cast<std::int64_t>(i),
                                 .tokens = Tokens(tokens[i]),
                                 .num_targets = std::max<std::int64_t>(0, tokens[i] - 1)});
  }
  request.cluster = uniform_cluster(cluster.num_ranks, cluster.ranks_per_node);
  request.cluster.speed = cluster.speed;
  request.cluster.memory = cluster.memory;
  request.cost = cost.empty() ? reference_cost_7b() : load_cost_model(cost);
  request.options.strategy = strategy;
  request.options.capacity = Tokens(capacity);
  request.options.max_context = Tokens(max_context);
  request.options.step = step;
  request.options.seed = seed;
  return request;
}

// A plan with the request's cluster and cost, so that it can be evaluated.
struct PyPlan {
  StepPlan plan;
  Evaluation evaluation;
};

// Every piece as one row of equally long arrays, in the order of ranks and micro-batches.
py::dict pieces_of(const StepPlan& plan) {
  std::vector<std::int32_t> rank;
  std::vector<std::int32_t> micro_batch;
  std::vector<std::int32_t> slot;
  std::vector<std::int32_t> group;
  std::vector<std::int64_t> sequence_id;
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> end;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (std::size_t m = 0; m < plan.ranks[r].size(); ++m) {
      for (const Piece& piece : plan.ranks[r][m].pieces) {
        rank.push_back(static_cast<std::int32_t>(r));
        micro_batch.push_back(static_cast<std::int32_t>(m));
        slot.push_back(plan.ranks[r][m].slot_idx);
        group.push_back(piece.group_idx);
        sequence_id.push_back(plan.sequences[static_cast<std::size_t>(piece.sequence_idx)].id);
        begin.push_back(piece.range.begin);
        end.push_back(piece.range.end);
      }
    }
  }
  py::dict pieces;
  pieces["rank"] = as_array(rank);
  pieces["micro_batch"] = as_array(micro_batch);
  pieces["slot"] = as_array(slot);
  pieces["group"] = as_array(group);
  pieces["sequence_id"] = as_array(sequence_id);
  pieces["begin"] = as_array(begin);
  pieces["end"] = as_array(end);
  return pieces;
}

// The groups' ranks behind one another; group g has ranks[offsets[g]:offsets[g + 1]], in ring
// order.
py::dict groups_of(const StepPlan& plan) {
  std::vector<std::int64_t> sequence_id;
  std::vector<std::int32_t> slot;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> ranks;
  for (const Group& group : plan.groups) {
    sequence_id.push_back(plan.sequences[static_cast<std::size_t>(group.sequence_idx)].id);
    slot.push_back(group.slot_idx);
    for (const Rank rank : group.ranks) ranks.push_back(rank.value());
    offsets.push_back(static_cast<std::int64_t>(ranks.size()));
  }
  py::dict groups;
  groups["sequence_id"] = as_array(sequence_id);
  groups["slot"] = as_array(slot);
  groups["offsets"] = as_array(offsets);
  groups["ranks"] = as_array(ranks);
  return groups;
}

py::array_t<double> busy_seconds(const Evaluation& evaluation) {
  std::vector<double> busy;
  for (const RankTime& rank : evaluation.ranks) busy.push_back(seconds(rank.busy));
  return as_array(busy);
}

void define_plan(py::module_& module) {
  py::class_<PyPlan>(module, "Plan")
      .def_property_readonly("strategy", [](const PyPlan& p) { return p.plan.strategy; })
      .def_property_readonly("num_ranks", [](const PyPlan& p) { return p.plan.num_ranks; })
      .def_property_readonly("num_slots", [](const PyPlan& p) { return p.plan.num_slots; })
      .def_property_readonly("makespan_s", [](const PyPlan& p) { return seconds(p.plan.makespan); })
      .def_property_readonly("lower_bound_s",
                             [](const PyPlan& p) { return seconds(p.plan.lower_bound); })
      .def_property_readonly("gap", [](const PyPlan& p) { return p.plan.gap(); })
      .def_property_readonly("idle_share", [](const PyPlan& p) { return p.evaluation.idle_share; })
      .def_property_readonly("max_degree", [](const PyPlan& p) { return p.evaluation.max_degree; })
      .def_property_readonly("busy_s", [](const PyPlan& p) { return busy_seconds(p.evaluation); })
      .def_property_readonly("hash", [](const PyPlan& p) { return plan_hash(p.plan).hex(); })
      .def("pieces", [](const PyPlan& p) { return pieces_of(p.plan); })
      .def("groups", [](const PyPlan& p) { return groups_of(p.plan); })
      .def("validate", [](const PyPlan& p) { validate(p.plan); })
      .def("save", [](const PyPlan& p, const std::string& path) { save_plan(path, p.plan); });
}

}  // namespace

PYBIND11_MODULE(_weft, module) {
  static py::exception<UserError> error(module, "WeftError", PyExc_ValueError);
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const UserError& caught) {
      error(caught.what());
    }
  });
  define_plan(module);
  module.def("strategies", [] {
    return std::vector<std::string>(strategy_names().begin(), strategy_names().end());
  });
  module.def("draw_lengths", [](const std::string& workload, std::int64_t context,
                                std::int64_t batch_tokens, std::uint64_t seed, std::int64_t batch) {
    return as_array(
        draw_lengths(parse_workload(workload, Tokens(context)), Tokens(batch_tokens), seed, batch));
  });
  module.def(
      "make_plan", [](const Int64Array& lengths, std::int32_t num_ranks, std::int64_t capacity,
                      const std::string& strategy, std::int64_t max_context,
                      const std::string& cost, std::int64_t step, std::uint64_t seed,
                      std::int32_t ranks_per_node, std::vector<double> speed,
                      std::vector<double> memory, const std::optional<Int64Array>& ids) {
        const PyCluster cluster{num_ranks, ranks_per_node, std::move(speed), std::move(memory)};
        const PlanRequest request =
            request_of(lengths, cluster, capacity, strategy, max_context, cost, step, seed, ids);
        py::gil_scoped_release release;
        PyPlan made;
        made.plan = make_plan(request);
        made.evaluation = evaluate(made.plan, request.cost, request.cluster);
        return made;
      });
}

}  // namespace weft
