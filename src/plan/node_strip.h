// NodeStrip: gives groups ranks where hops inside a node are cheaper.
//
// Groups come in the order of the starts that were planned for them in time alone. One that a node
// can hold takes a node that is free by then; where none is, the node in which it would end first,
// or ranks of several nodes where it ends earlier. Larger groups take whole nodes and one part of a
// node. Of equal choices ranks that wait least are taken, then those that leave the fewest free
// ranks beside them, so that nodes stay whole for what comes. A group starts when its last rank is
// free, so a late one delays what follows it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/node_choice.h"
#include "plan/strip_schedule.h"
#include "plan/whole_filler.h"

namespace weft {

class NodeStrip {
 public:
  // REQUIRES: input.first_rank begins a node.
  explicit NodeStrip(const StripInput& input);

  // The ranks and the start of the task as group number `group`, behind all that was placed.
  // Appends to `gaps`. REQUIRES: task.degree <= ranks.
  StripGroup place(const GangTask& task, std::int64_t planned_start, std::int32_t group,
                   std::vector<RankGap>& gaps);
  std::vector<RankEnd> ends() const;  // every rank once

 private:
  // The ranks of a node by when they are free, ascending.
  using Node = std::vector<RankLoad>;
  // The last `count` ranks of a node of those that are free by some time.
  struct Part {
    std::size_t node = 0;
    std::size_t count = 0;
  };

  // What a group gets: ranks of parts_ that are free by `limit`, for so long.
  struct Choice {
    std::int64_t limit = 0;
    std::int64_t duration = 0;
  };

  Choice choose(const GangTask& task, std::int64_t planned_start);
  std::vector<RankLoad> take_parts(std::int64_t limit);  // part by part
  // `ranks`: those that were taken, in that order.
  void put_back(std::span<const std::int32_t> ranks, std::int64_t free_at);
  void index_node(std::size_t node);
  // Places among the ranks of the node that are free by `limit`; 0 without one.
  static std::size_t free_by(const Node& node, std::int64_t limit);
  // In one node by the limit; false when none has so many free ranks.
  bool choose_node(std::size_t degree, std::int64_t limit);
  void choose_parts(std::size_t degree, std::int64_t limit);
  std::int64_t free_in_node(std::size_t degree) const;   // first time; kNever
  std::int64_t free_anywhere(std::size_t degree) const;  // first time

  std::vector<Node> nodes_;
  // [i][node]: when ranks 0 to i of the node are free, kNever where it has no rank i. A group asks
  // all nodes, so what it asks for lies side by side.
  std::vector<std::vector<std::int64_t>> free_at_;
  std::map<std::int64_t, std::size_t> free_ranks_;  // ranks of all nodes by when they are free
  std::vector<Part> parts_;                         // chosen
};

}  // namespace weft
