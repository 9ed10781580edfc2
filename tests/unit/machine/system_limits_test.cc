// Cores and memory, found out from the texts of machines that nobody has at hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "machine/core_count.h"
#include "machine/memory_size.h"
#include "machine/resident_size.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

ReadSystemText texts(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  };
}

TEST(SystemText, LeadingIntegersAreReadAndAnythingElseIsNone) {
  EXPECT_EQ(parse_leading_integer("42\n"), 42);
  EXPECT_EQ(parse_leading_integer("  \t7 kB"), 7);
  EXPECT_EQ(parse_leading_integer("0"), 0);
  for (const char* text : {"", "max", "-1", "\n", "99999999999999999999"})
    EXPECT_EQ(parse_leading_integer(text), std::nullopt) << text;
}

TEST(ControlGroups, VersionTwoListsTheGroupAndItsAncestors) {
  const auto read = texts({{"/proc/self/cgroup", "0::/user.slice/job.scope\n"}});
  const ControlGroups groups = control_groups(read, "cpu");
  EXPECT_TRUE(groups.version1.empty());
  EXPECT_THAT(
      groups.version2,
      ElementsAre("/sys/fs/cgroup/user.slice/job.scope",
                  "/sys/fs/cgroup/unified/user.slice/job.scope", "/sys/fs/cgroup/user.slice",
                  "/sys/fs/cgroup/unified/user.slice", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
}

TEST(ControlGroups, VersionOneFindsItsControllerAmongOthersAndLinkedTogether) {
  const auto read =
      texts({{"/proc/self/cgroup",
              "5:devices:/d\n4:cpu,cpuacct:/docker/1a\n3:cpuset:/x\n1:name=systemd:/\n"}});
  EXPECT_THAT(control_groups(read, "cpu").version1,
              ElementsAre("/sys/fs/cgroup/cpu,cpuacct/docker/1a", "/sys/fs/cgroup/cpu/docker/1a",
                          "/sys/fs/cgroup/cpu,cpuacct/docker", "/sys/fs/cgroup/cpu/docker",
                          "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"));
  EXPECT_THAT(control_groups(read, "memory").version1, ElementsAre());
}

TEST(ControlGroups, APathOutsideWhatAContainerSeesIsItsRoot) {
  const auto read = texts({{"/proc/self/cgroup", "0::/../../pod\n"}});
  EXPECT_THAT(control_groups(read, "cpu").version2,
              ElementsAre("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
}

TEST(ControlGroups, DamagedLinesAreSkipped) {
  const auto read = texts({{"/proc/self/cgroup", "nonsense\n1:x\n\n0::/a\n"}});
  EXPECT_EQ(control_groups(read, "cpu").version2.size(), 4u);
}

TEST(CoreCount, TheStrictestLimitOfGroupAndAncestorsHolds) {
  const auto read = texts({{"/proc/self/cgroup", "0::/a/b\n"},
                           {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                           {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"},
                           {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}});
  EXPECT_DOUBLE_EQ(cpu_time_limit(read).value(), 1.5);
}

TEST(CoreCount, VersionOneQuotasAreReadAndMinusOneIsNoLimit) {
  const auto files = [](const std::string& quota) {
    return texts({{"/proc/self/cgroup", "1:cpu:/job\n"},
                  {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota},
                  {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"}});
  };
  EXPECT_DOUBLE_EQ(cpu_time_limit(files("250000\n")).value(), 2.5);
  EXPECT_EQ(cpu_time_limit(files("-1\n")), std::nullopt);
}

TEST(CoreCount, NoFilesOrDamagedFilesAreNoLimit) {
  EXPECT_EQ(cpu_time_limit(texts({})), std::nullopt);
  for (const char* text : {"", "max", "100000", "100000 0", "x 100000", "100000 x"}) {
    const auto read = texts({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", text}});
    EXPECT_EQ(cpu_time_limit(read), std::nullopt) << text;
  }
}

TEST(CoreCount, UsableIsTheSmallestOfTheThreeAndAtLeastOne) {
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 8, .cpu_time = {}}).usable(), 8);
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 3, .cpu_time = {}}).usable(), 3);
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 8, .cpu_time = 2.0}).usable(), 2);
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 8, .cpu_time = 2.4}).usable(), 2);
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 8, .cpu_time = 2.5}).usable(), 3);
  EXPECT_EQ((CoreCount{.hardware = 8, .affinity = 8, .cpu_time = 0.1}).usable(), 1);
  EXPECT_EQ((CoreCount{.hardware = 2, .affinity = 2, .cpu_time = 64.0}).usable(), 2);
}

TEST(CoreCount, ThisMachineHasAtLeastOneAndNoMoreThanItHas) {
  const CoreCount count = count_cores(system_text());
  EXPECT_GE(count.affinity, 1);
  EXPECT_GE(count.hardware, 1);
  EXPECT_GE(count.usable(), 1);
  EXPECT_LE(count.usable(), count.hardware);
}

constexpr char kMeminfo[] =
    "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\nSwapTotal: 0 "
    "kB\n";

TEST(MemorySize, MeminfoIsRead) {
  const MemorySize size = read_memory_size(texts({{"/proc/meminfo", kMeminfo}}));
  EXPECT_EQ(size.total, 16_MiB);
  EXPECT_EQ(size.available, 8_MiB);
  EXPECT_EQ(size.group_limit, std::nullopt);
  EXPECT_EQ(size.usable(), 8_MiB);
}

TEST(MemorySize, OldKernelsWithoutMemAvailableCountFreeMemory) {
  const auto read = texts({{"/proc/meminfo", "MemTotal: 16384 kB\nMemFree: 1024 kB\n"}});
  EXPECT_EQ(read_memory_size(read).available, 1_MiB);
}

TEST(ResidentSize, AnonymousPagesOfThisProcessAreCounted) {
  const auto read =
      texts({{"/proc/self/status",
              "Name:\tRssAnon:\nVmRSS:\t    5000 kB\nRssAnon:\t    2048 kB\nRssFile:\t  9 "
              "kB\n"}});
  EXPECT_EQ(resident_size(read), 2_MiB);
  EXPECT_EQ(resident_size(texts({{"/proc/self/status", "VmRSS: 5000 kB\n"}})), Bytes(0));
  EXPECT_EQ(resident_size(texts({})), Bytes(0));
  const Bytes before = resident_size(system_text());
  std::vector<char> touched(32 << 20, 1);
  EXPECT_GE(resident_size(system_text()) - before, 31_MiB);
  EXPECT_EQ(touched.back(), 1);
}

TEST(MemorySize, AGroupsLimitCountsWhatItHasAlreadyUsed) {
  const auto read = texts({{"/proc/meminfo", kMeminfo},
                           {"/proc/self/cgroup", "0::/job\n"},
                           {"/sys/fs/cgroup/job/memory.max", "4194304\n"},
                           {"/sys/fs/cgroup/job/memory.current", "3145728\n"}});
  const MemorySize size = read_memory_size(read);
  EXPECT_EQ(size.group_limit, 4_MiB);
  EXPECT_EQ(size.usable(), 1_MiB);
}

TEST(MemorySize, AnAncestorMayLeaveLessThanTheGroupItself) {
  const auto read = texts({{"/proc/meminfo", kMeminfo},
                           {"/proc/self/cgroup", "3:memory:/pod/box\n"},
                           {"/sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes", "2097152\n"},
                           {"/sys/fs/cgroup/memory/pod/box/memory.usage_in_bytes", "0\n"},
                           {"/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "4194304\n"},
                           {"/sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "4096000\n"}});
  const MemorySize size = read_memory_size(read);
  EXPECT_EQ(size.group_limit, 2_MiB);
  EXPECT_EQ(size.usable(), Bytes(4194304 - 4096000));
}

TEST(MemorySize, LimitsAboveTheMachineAreNone) {
  for (const char* text : {"max\n", "9223372036854771712\n", "16777216\n"}) {
    const auto read = texts({{"/proc/meminfo", kMeminfo},
                             {"/proc/self/cgroup", "0::/\n"},
                             {"/sys/fs/cgroup/memory.max", text}});
    EXPECT_EQ(read_memory_size(read).group_limit, std::nullopt) << text;
  }
}

TEST(MemorySize, WithoutMeminfoNothingIsUsable) {
  EXPECT_EQ(read_memory_size(texts({})).usable(), Bytes(0));
}

TEST(MemorySize, TheLargestCacheWinsInEitherUnit) {
  const auto read = texts({{"/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"},
                           {"/sys/devices/system/cpu/cpu0/cache/index2/size", "2048K\n"},
                           {"/sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n"}});
  EXPECT_EQ(last_level_cache(read), 32_MiB);
  EXPECT_EQ(last_level_cache(texts({})), Bytes(0));
}

}  // namespace
}  // namespace weft
