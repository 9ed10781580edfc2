#include "machine/system_text.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace weft {
namespace {

// "/a/b" -> {"/a/b", "/a", ""}: a prefix of a mount's path; ".." parts lie outside what is visible.
std::vector<std::string> self_and_ancestors(std::string_view group) {
  std::vector<std::string> paths;
  std::string path(group);
  if (path.find("..") != std::string::npos) path.clear();
  while (!path.empty() && path.back() == '/') path.pop_back();
  while (!path.empty()) {
    paths.push_back(path);
    path.resize(std::min(path.rfind('/'), path.size()));
  }
  paths.emplace_back();
  return paths;
}

bool lists(std::string_view comma_separated, std::string_view word) {
  while (!comma_separated.empty()) {
    const std::size_t end = std::min(comma_separated.find(','), comma_separated.size());
    if (comma_separated.substr(0, end) == word) return true;
    comma_separated.remove_prefix(std::min(end + 1, comma_separated.size()));
  }
  return false;
}

}  // namespace

ReadSystemText system_text() {
  return [](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
}

std::optional<std::int64_t> parse_leading_integer(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

ControlGroups control_groups(const ReadSystemText& read, std::string_view controller) {
  ControlGroups groups;
  std::istringstream lines(read("/proc/self/cgroup").value_or("0::/\n"));
  // A line is "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version2 = controllers.empty() && line.substr(0, first) == "0";
    if (!is_version2 && !lists(controllers, controller)) continue;
    for (const std::string& path : self_and_ancestors(line.substr(second + 1))) {
      if (is_version2) {
        groups.version2.push_back("/sys/fs/cgroup" + path);
        groups.version2.push_back("/sys/fs/cgroup/unified" + path);
      } else {
        groups.version1.push_back("/sys/fs/cgroup/" + controllers + path);
        if (controllers != controller)
          groups.version1.push_back("/sys/fs/cgroup/" + std::string(controller) + path);
      }
    }
  }
  return groups;
}

}  // namespace weft
