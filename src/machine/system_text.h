// What the kernel says about itself, as text: the one door to /proc and /sys, so that tests hand in
// other machines' texts. Parsers take text; a file that does not exist is nullopt, never an error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Content of a small text file by absolute path; nullopt when it cannot be read.
using ReadSystemText = std::function<std::optional<std::string>(const std::string& path)>;
ReadSystemText system_text();

// A non-negative integer at the start of the text, blanks skipped; nullopt for anything else ("max"
// too).
std::optional<std::int64_t> parse_leading_integer(std::string_view text);

// The directories under which this process's control group may show `controller` ("cpu",
// "memory"), most specific first: the group itself, then its ancestors up to the mount. Handles
// version 1, version 2, hybrids of both, and containers that see only their own group as the root.
struct ControlGroups {
  std::vector<std::string> version1;  // e.g. "/sys/fs/cgroup/memory/docker/1a2b"
  std::vector<std::string> version2;  // e.g. "/sys/fs/cgroup/user.slice"
};
ControlGroups control_groups(const ReadSystemText& read, std::string_view controller);

}  // namespace weft
