#include "comm/launch_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

LaunchPlace find(const Variables& variables) {
  return find_launch_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Variables& variables) {
  try {
    const LaunchPlace place = find(variables);
    ADD_FAILURE() << "accepted as " << to_string(place.launcher) << ": " << place.evidence;
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(RanksPerNode, AreThoseThatFollowEachOtherOnEveryHost) {
  const auto count = [](const std::vector<LocalPlace>& places) { return ranks_per_node(places); };
  EXPECT_EQ(count({{0, 1}}), 1);
  EXPECT_EQ(count({{0, 3}, {1, 3}, {2, 3}}), 3);
  EXPECT_EQ(count({{0, 2}, {1, 2}, {0, 2}, {1, 2}}), 2);
  EXPECT_EQ(count({{0, 3}, {1, 3}, {2, 3}, {0, 2}, {1, 2}}), 3) << "the last host has fewer";
  EXPECT_EQ(count({{0, 1}, {0, 1}, {0, 1}}), 1);
  // Dealt round robin, or hosts of other sizes first: no neighbours to count on.
  EXPECT_EQ(count({{0, 2}, {0, 2}, {1, 2}, {1, 2}}), 1);
  EXPECT_EQ(count({{0, 1}, {0, 2}, {1, 2}}), 1);
  EXPECT_EQ(count({{0, 3}, {1, 3}, {2, 3}, {0, 1}, {0, 1}}), 1);
  EXPECT_EQ(count({}), 1);
}

void expect_place(const Variables& variables, Launcher launcher, std::int32_t rank,
                  std::int32_t size, std::int32_t local_rank, std::int32_t local_size) {
  const LaunchPlace place = find(variables);
  EXPECT_EQ(to_string(place.launcher), to_string(launcher)) << place.evidence;
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.size, size);
  EXPECT_EQ(place.local_rank, local_rank);
  EXPECT_EQ(place.local_size, local_size);
  EXPECT_EQ(place.evidence.empty(), launcher == Launcher::kNone);
}

Variables merged(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kTorchrun{
    {"RANK", "3"}, {"WORLD_SIZE", "6"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "3"}};
const Variables kMpich{
    {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "3"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_TASKS_PER_NODE", "3,1"}};
// What a batch script sees of an allocation of two tasks.
const Variables kBatchScript{{"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_TASKS_PER_NODE", "1(x2)"}};

TEST(LaunchPlace, AnEmptyEnvironmentIsOneProcessWithoutALauncher) {
  expect_place({}, Launcher::kNone, 0, 1, 0, 1);
}

TEST(LaunchPlace, EachLauncherIsReadFromItsOwnVariables) {
  expect_place(kOpenMpi, Launcher::kOpenMpi, 5, 8, 1, 4);
  expect_place(kTorchrun, Launcher::kTorchrun, 3, 6, 0, 3);
  expect_place(kMpich, Launcher::kMpich, 2, 3, 2, 3);
  expect_place(kSlurm, Launcher::kSlurm, 3, 4, 0, 1);
}

TEST(LaunchPlace, TheEvidenceNamesTheVariablesAndTheirValues) {
  EXPECT_EQ(find(kTorchrun).evidence, "RANK=3, WORLD_SIZE=6, LOCAL_RANK=0, LOCAL_WORLD_SIZE=3");
  EXPECT_THAT(find(kSlurm).evidence,
              AllOf(HasSubstr("SLURM_PROCID=3"), HasSubstr("SLURM_STEP_TASKS_PER_NODE=3,1")));
}

TEST(LaunchPlace, ABatchScriptIsNoRankOfItsAllocation) {
  expect_place(kBatchScript, Launcher::kNone, 0, 1, 0, 1);
}

TEST(LaunchPlace, TheInnerLauncherWinsOverTheOneItRunsIn) {
  expect_place(merged(kOpenMpi, kBatchScript), Launcher::kOpenMpi, 5, 8, 1, 4);
  expect_place(merged(kOpenMpi, kSlurm), Launcher::kOpenMpi, 5, 8, 1, 4);
  expect_place(merged(kTorchrun, kSlurm), Launcher::kTorchrun, 3, 6, 0, 3);
  expect_place(merged(kMpich, kSlurm), Launcher::kMpich, 2, 3, 2, 3);
  expect_place(merged(merged(kOpenMpi, kTorchrun), merged(kMpich, kSlurm)), Launcher::kOpenMpi, 5,
               8, 1, 4);
}

TEST(LaunchPlace, APartOfOneSetDoesNotHideACompleteOne) {
  expect_place(merged(kSlurm, {{"WORLD_SIZE", "8"}}), Launcher::kSlurm, 3, 4, 0, 1);
  expect_place(merged(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), Launcher::kSlurm, 3, 4, 0,
               1);
}

TEST(LaunchPlace, OneProcessNeedsNoLocalVariables) {
  expect_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Launcher::kTorchrun, 0, 1, 0, 1);
  expect_place({{"SLURM_STEP_NUM_TASKS", "1"}}, Launcher::kNone, 0, 1, 0, 1);
}

TEST(LaunchPlace, AnIncompleteSetIsRefusedWithWhatIsThereAndWhatIsNot) {
  for (const Variables& whole : {kOpenMpi, kTorchrun, kMpich, kSlurm}) {
    for (const auto& [missing, value] : whole) {
      Variables part = whole;
      part.erase(missing);
      if (missing == "SLURM_STEP_NUM_TASKS") {
        expect_place(part, Launcher::kNone, 0, 1, 0, 1);  // a batch script's own variables
        continue;
      }
      const std::string text = refusal(part);
      EXPECT_THAT(text, AllOf(HasSubstr("incomplete"), HasSubstr(missing + " is not set")));
      for (const auto& [name, present] : part) EXPECT_THAT(text, HasSubstr(name + "=" + present));
    }
  }
}

TEST(LaunchPlace, GarbageIsRefusedWithNameAndValue) {
  for (const Variables& whole : {kOpenMpi, kTorchrun, kMpich, kSlurm}) {
    for (const auto& [name, value] : whole) {
      for (const std::string bad : {"", " 1", "1 ", "-1", "x", "1.0", "0x1", "99999999999"}) {
        Variables variables = whole;
        variables[name] = bad;
        EXPECT_THAT(refusal(variables), HasSubstr(fmt::format("{}='{}'", name, bad)));
      }
    }
  }
}

TEST(LaunchPlace, ContradictionsAreRefusedWithAllValues) {
  const auto with = [](Variables variables, const char* name, const char* value) {
    variables[name] = value;
    return refusal(variables);
  };
  EXPECT_THAT(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "8"),
              AllOf(HasSubstr("contradict"), HasSubstr("OMPI_COMM_WORLD_RANK=8"),
                    HasSubstr("OMPI_COMM_WORLD_SIZE=8")));
  EXPECT_THAT(with(kOpenMpi, "OMPI_COMM_WORLD_SIZE", "0"), HasSubstr("at least one process"));
  EXPECT_THAT(with(kTorchrun, "LOCAL_RANK", "3"), HasSubstr("LOCAL_RANK=3"));
  EXPECT_THAT(with(kTorchrun, "LOCAL_WORLD_SIZE", "7"), HasSubstr("more processes than the job"));
  EXPECT_THAT(with(kTorchrun, "LOCAL_WORLD_SIZE", "0"), HasSubstr("LOCAL_WORLD_SIZE=0"));
  EXPECT_THAT(with(kMpich, "PMI_RANK", "3"), HasSubstr("PMI_RANK=3"));
  EXPECT_THAT(with(kSlurm, "SLURM_STEP_NUM_TASKS", "5"), HasSubstr("4 tasks on 2 nodes"));
  EXPECT_THAT(with(kSlurm, "SLURM_NODEID", "2"), HasSubstr("SLURM_NODEID=2"));
  EXPECT_THAT(with(kSlurm, "SLURM_LOCALID", "1"), HasSubstr("SLURM_LOCALID=1"));
}

TEST(LaunchPlace, SlurmListsOfTasksPerNodeAreRead) {
  struct Case {
    const char* tasks;
    std::int32_t size, node, local_size;
  };
  for (const Case& c : {Case{"4", 4, 0, 4}, Case{"3,1", 4, 0, 3}, Case{"3,1", 4, 1, 1},
                        Case{"4(x2)", 8, 1, 4}, Case{"2(x3),1", 7, 2, 2}, Case{"2(x3),1", 7, 3, 1},
                        Case{"1,5(x2),3(x2)", 17, 4, 3}, Case{"1(x1)", 1, 0, 1}}) {
    for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
      expect_place({{"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", std::to_string(c.size)},
                    {"SLURM_LOCALID", "0"},
                    {"SLURM_NODEID", std::to_string(c.node)},
                    {name, c.tasks}},
                   Launcher::kSlurm, 0, c.size, 0, c.local_size);
    }
  }
  for (const char* bad : {",", "3,", ",1", "3(x", "3(x2", "3x2", "3(2)", "(x2)", "3(x2)1", "3;1",
                          "3(x-1)", "3(x999999999)"}) {
    Variables variables = kSlurm;
    variables["SLURM_STEP_TASKS_PER_NODE"] = bad;
    EXPECT_THAT(refusal(variables), HasSubstr(fmt::format("='{}'", bad)));
  }
}

TEST(LaunchPlace, TheStepsOwnListWinsOverTheAllocations) {
  Variables variables = kSlurm;
  variables["SLURM_TASKS_PER_NODE"] = "8(x2)";
  expect_place(variables, Launcher::kSlurm, 3, 4, 0, 1);
}

}  // namespace
}  // namespace weft
