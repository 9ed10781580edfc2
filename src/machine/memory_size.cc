#include "machine/memory_size.h"

#include <algorithm>

namespace weft {
namespace {

void take_group(const ReadSystemText& read, const std::string& limit_file,
                const std::string& usage_file, MemorySize& size) {
  const auto limit = parse_leading_integer(read(limit_file).value_or(std::string()));
  // Without a limit version 1 shows a number of about 2^63, version 2 "max".
  if (!limit || Bytes(*limit) >= size.total) return;
  const auto usage = parse_leading_integer(read(usage_file).value_or(std::string())).value_or(0);
  const Bytes left(std::max<std::int64_t>(0, *limit - usage));
  size.group_limit = std::min(size.group_limit.value_or(Bytes(*limit)), Bytes(*limit));
  size.group_left = std::min(size.group_left.value_or(left), left);
}

}  // namespace

// "MemAvailable:   23456 kB"
std::optional<Bytes> kibibytes_field(std::string_view text, std::string_view name) {
  std::size_t at = text.find(name);
  while (at != std::string_view::npos && at > 0 && text[at - 1] != '\n')
    at = text.find(name, at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  const auto kibibytes = parse_leading_integer(text.substr(at + name.size()));
  if (!kibibytes) return std::nullopt;
  return Bytes(*kibibytes << 10);
}

Bytes MemorySize::usable() const { return std::min(available, group_left.value_or(available)); }

MemorySize read_memory_size(const ReadSystemText& read) {
  MemorySize size;
  const std::string meminfo = read("/proc/meminfo").value_or(std::string());
  size.total = kibibytes_field(meminfo, "MemTotal:").value_or(Bytes(0));
  // Kernels before 3.14 have no MemAvailable.
  size.available = kibibytes_field(meminfo, "MemAvailable:")
                       .value_or(kibibytes_field(meminfo, "MemFree:").value_or(Bytes(0)));
  const ControlGroups groups = control_groups(read, "memory");
  for (const std::string& directory : groups.version2)
    take_group(read, directory + "/memory.max", directory + "/memory.current", size);
  for (const std::string& directory : groups.version1)
    take_group(read, directory + "/memory.limit_in_bytes", directory + "/memory.usage_in_bytes",
               size);
  return size;
}

Bytes last_level_cache(const ReadSystemText& read) {
  Bytes largest;
  for (int index = 0; index < 8; ++index) {
    const std::string text =
        read(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index))
            .value_or(std::string());
    const auto number = parse_leading_integer(text);
    if (!number) continue;
    const bool is_mebibytes = text.find('M') != std::string::npos;
    largest = std::max(largest, Bytes(*number << (is_mebibytes ? 20 : 10)));
  }
  return largest;
}

}  // namespace weft
