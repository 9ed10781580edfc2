// Which rings leave which nodes right now, and how much that slows each of them.
//
// A ring that keeps its links busy all the time weighs 1; one whose hops end long before its
// attention does weighs less. Where the rings that leave a node weigh more than it can carry at
// full speed, each of them takes that much longer; a ring is as slow as its slowest node. Every
// stage has nodes of its own. Weights are integers, so that what is added and taken away again
// leaves nothing behind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

class LinkLoad {
 public:
  static constexpr std::int64_t kWhole = 1 << 20;  // a ring that never pauses

  // `full_speed_rings` a node; 0: no limit, and nothing ever slows down.
  LinkLoad(std::int32_t num_stages, std::int32_t num_nodes, double full_speed_rings);

  bool is_limited() const { return full_speed_ > 0; }
  // Pass `user` adds a ring that leaves the nodes, or takes it away.
  void add(std::int32_t stage, std::span<const std::int32_t> nodes, std::int64_t weight,
           std::int64_t user);
  void remove(std::int32_t stage, std::span<const std::int32_t> nodes, std::int64_t weight,
              std::int64_t user);
  double slowdown(std::int32_t stage, std::span<const std::int32_t> nodes) const;
  // Those with a ring that leaves one of the nodes; each may come more than once.
  void users(std::int32_t stage, std::span<const std::int32_t> nodes,
             std::vector<std::int64_t>& users) const;

 private:
  struct Node {
    std::int64_t weight = 0;
    std::vector<std::int64_t> users;
  };
  std::size_t index(std::int32_t stage, std::int32_t node) const {
    return static_cast<std::size_t>(stage) * num_nodes_ + static_cast<std::size_t>(node);
  }

  std::size_t num_nodes_;
  double full_speed_;
  std::vector<Node> nodes_;  // [stages][nodes]
};

}  // namespace weft
