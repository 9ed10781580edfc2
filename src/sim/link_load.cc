#include "sim/link_load.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

LinkLoad::LinkLoad(std::int32_t num_stages, std::int32_t num_nodes, double full_speed_rings)
    : num_nodes_(static_cast<std::size_t>(num_nodes)),
      full_speed_(full_speed_rings),
      nodes_(full_speed_rings > 0 ? static_cast<std::size_t>(num_stages) * num_nodes_ : 0) {}

void LinkLoad::add(std::int32_t stage, std::span<const std::int32_t> nodes, std::int64_t weight,
                   std::int64_t user) {
  for (const std::int32_t n : nodes) {
    Node& node = nodes_[index(stage, n)];
    node.weight += weight;
    node.users.push_back(user);
  }
}

void LinkLoad::remove(std::int32_t stage, std::span<const std::int32_t> nodes, std::int64_t weight,
                      std::int64_t user) {
  for (const std::int32_t n : nodes) {
    Node& node = nodes_[index(stage, n)];
    node.weight -= weight;
    const auto found = std::find(node.users.begin(), node.users.end(), user);
    WEFT_CHECK(found != node.users.end(), "pass {} does not use node {}", user, n);
    *found = node.users.back();
    node.users.pop_back();
  }
}

double LinkLoad::slowdown(std::int32_t stage, std::span<const std::int32_t> nodes) const {
  if (!is_limited()) return 1;
  std::int64_t most = 0;
  for (const std::int32_t n : nodes) most = std::max(most, nodes_[index(stage, n)].weight);
  return std::max(1.0, static_cast<double>(most) / static_cast<double>(kWhole) / full_speed_);
}

void LinkLoad::users(std::int32_t stage, std::span<const std::int32_t> nodes,
                     std::vector<std::int64_t>& users) const {
  for (const std::int32_t n : nodes) {
    const Node& node = nodes_[index(stage, n)];
    users.insert(users.end(), node.users.begin(), node.users.end());
  }
}

}  // namespace weft
