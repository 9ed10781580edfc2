// Every verdict of the doctor, on machines that nobody has at hand.
#include "machine/checkup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/blas_choice.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

MachineFacts good_machine() {
  MachineFacts facts;
  facts.cores = {.hardware = 8, .affinity = 8, .cpu_time = {}};
  facts.memory.total = 32768_MiB;
  facts.memory.available = 30000_MiB;
  facts.compute.simd = {.name = "AVX2", .float_lanes = 8, .double_lanes = 4};
  facts.compute.clock_rate = 3e9;
  facts.compute.float_one = 96e9;
  facts.compute.double_one = 48e9;
  facts.compute.float_all = 740e9;
  facts.compute.num_threads = 8;
  facts.compute.read_rate = 13e9;
  facts.compute.copy_rate = 8e9;
  facts.compute.bandwidth_buffer = 128_MiB;
  facts.blas.info.flavour = BlasFlavour::kOpenBlas;
  facts.blas.info.path = "/usr/lib/openblas-pthread/libblas.so.3";
  facts.blas.info.core = "Haswell";
  facts.blas.info.num_threads = 8;
  facts.blas.sgemm = 85e9;
  facts.blas.sgemm_share = 0.88;
  facts.blas.dgemm = 42e9;
  facts.blas.dgemm_share = 0.87;
  facts.shared_memory = FileSystemSpace{.size = 16384_MiB, .free = 16000_MiB};
  facts.out = "out";
  facts.out_space = FileSystemSpace{.size = 512000_MiB, .free = 256000_MiB};
  facts.out_speed.write_bytes_per_s = 400e6;
  facts.out_speed.fsync = 3_ms;
  facts.mpi.mpirun = "/usr/bin/mpirun";
  facts.mpi.version = {.flavour = MpiFlavour::kOpenMpi, .version = "4.1.4"};
  facts.engine.exists = true;
  facts.engine.path = "/opt/weft/weft-engine";
  facts.engine.build_id = facts.build_id = "0123456789ab";
  return facts;
}

// Applies `change` to a good machine: the named check alone must change, to that verdict, with
// those words in its advice.
template <class Change>
void expect_verdict(const std::string& name, Verdict verdict, const std::string& advice,
                    Change change) {
  MachineFacts facts = good_machine();
  change(facts);
  const std::vector<Check> checks = check_machine(facts);
  for (const Check& check : checks) {
    const bool is_changed = check.name == name;
    EXPECT_EQ(check.verdict, is_changed ? verdict : Verdict::kOk)
        << name << " changed " << check.name << ": " << check.found;
    if (is_changed) {
      EXPECT_THAT(check.advice, HasSubstr(advice));
    }
    EXPECT_EQ(check.advice.empty(), check.verdict == Verdict::kOk) << check.name;
  }
  EXPECT_EQ(worst_verdict(checks), verdict) << name;
}

TEST(Checkup, AGoodMachineIsOkInEveryPart) {
  const std::vector<Check> checks = check_machine(good_machine());
  EXPECT_EQ(checks.size(), 10u);
  for (const Check& check : checks) {
    EXPECT_EQ(check.verdict, Verdict::kOk) << check.name << ": " << check.found;
    EXPECT_EQ(check.advice, "") << check.name;
    EXPECT_NE(check.found, "") << check.name;
  }
  EXPECT_EQ(worst_verdict(checks), Verdict::kOk);
}

TEST(Checkup, TheWorstOfNothingIsOk) { EXPECT_EQ(worst_verdict({}), Verdict::kOk); }

TEST(Checkup, CoresHeldBackByAGroupOrAMaskAreWarnings) {
  expect_verdict("cores", Verdict::kWarning, "ranks x threads at 2",
                 [](MachineFacts& facts) { facts.cores.cpu_time = 2.0; });
  expect_verdict("cores", Verdict::kWarning, "--bind-to none",
                 [](MachineFacts& facts) { facts.cores.affinity = 1; });
  expect_verdict("cores", Verdict::kOk, "",
                 [](MachineFacts& facts) { facts.cores.cpu_time = 8.0; });
}

TEST(Checkup, NarrowSimdIsAWarningExceptWhereItIsAllThereIs) {
  expect_verdict("simd", Verdict::kWarning, "AVX2", [](MachineFacts& facts) {
    facts.compute.simd = {.name = "SSE4", .float_lanes = 4, .double_lanes = 2};
  });
  expect_verdict("simd", Verdict::kOk, "", [](MachineFacts& facts) {
    facts.compute.simd = {.name = "NEON", .float_lanes = 4, .double_lanes = 2};
  });
}

TEST(Checkup, ThreadsThatDoNotAddUpAreAWarning) {
  expect_verdict("fma peak", Verdict::kWarning, "other programs",
                 [](MachineFacts& facts) { facts.compute.float_all = 400e9; });
}

TEST(Checkup, ReferenceBlasIsAProblemWithThePackageThatMendsIt) {
  expect_verdict("blas", Verdict::kProblem, "apt-get install libopenblas-dev",
                 [](MachineFacts& facts) {
                   facts.blas.info.flavour = BlasFlavour::kReference;
                   facts.blas.sgemm_share = 0.03;
                 });
}

TEST(Checkup, ASlowTunedBlasIsAWarning) {
  expect_verdict("blas", Verdict::kWarning, "OPENBLAS_CORETYPE",
                 [](MachineFacts& facts) { facts.blas.sgemm_share = 0.45; });
}

TEST(Checkup, BlasCodeThatLeavesAvx512UnusedIsNamedWithWhatChoseIt) {
  const auto with = [](const std::string& core, const std::string& override_core) {
    return [=](MachineFacts& facts) {
      facts.compute.simd = {.name = "AVX3", .float_lanes = 16, .double_lanes = 8};
      facts.blas.info.core = core;
      facts.blas.core_override = override_core;
      facts.blas.sgemm_share = 0.45;
    };
  };
  expect_verdict("blas", Verdict::kWarning, "OPENBLAS_CORETYPE=Haswell in the environment",
                 with("Haswell", "Haswell"));
  expect_verdict("blas", Verdict::kWarning, "set OPENBLAS_CORETYPE=SKYLAKEX", with("Zen", ""));
  expect_verdict("blas", Verdict::kWarning, "weft train and weft profile do so themselves",
                 with("Prescott", ""));
  expect_verdict("blas", Verdict::kWarning, "slow for a tuned BLAS", with("SkylakeX", ""));
}

TEST(FittingBlasCore, IsNamedOnlyWhereOpenBlasChoseCodeFromBeforeAvx2) {
  const auto level = [](const char* name) {
    return SimdLevel{.name = name, .float_lanes = 8, .double_lanes = 4};
  };
  for (const char* core : {"Prescott", "Core2", "Nehalem", "Sandybridge", "Barcelona"}) {
    EXPECT_EQ(fitting_blas_core(core, level("AVX3_SPR")), "SKYLAKEX") << core;
    EXPECT_EQ(fitting_blas_core(core, level("AVX3")), "SKYLAKEX") << core;
    EXPECT_EQ(fitting_blas_core(core, level("AVX2")), "HASWELL") << core;
    EXPECT_EQ(fitting_blas_core(core, level("SSE4")), std::nullopt) << core;
  }
  for (const char* core : {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake",
                           "Sapphirerapids", "neoversen1", "armv8", "unknown", ""})
    EXPECT_EQ(fitting_blas_core(core, level("AVX3")), std::nullopt) << core;
}

TEST(Checkup, NoBlasIsAProblemForTheEngine) {
  expect_verdict("blas", Verdict::kProblem, "libopenblas-dev",
                 [](MachineFacts& facts) { facts.blas = BlasFacts{}; });
  MachineFacts facts = good_machine();
  facts.blas = BlasFacts{};
  facts.engine = EngineState{};
  EXPECT_EQ(worst_verdict(check_machine(facts)), Verdict::kWarning);
}

TEST(Checkup, LittleMemoryIsAWarningAndNoneAProblem) {
  expect_verdict("memory", Verdict::kWarning, "tiny models",
                 [](MachineFacts& facts) { facts.memory.available = 4095_MiB; });
  expect_verdict("memory", Verdict::kProblem, "--memory", [](MachineFacts& facts) {
    facts.memory.group_limit = 1024_MiB;
    facts.memory.group_left = 511_MiB;
  });
}

TEST(Checkup, SlowMemoryIsAWarning) {
  expect_verdict("memory bandwidth", Verdict::kWarning, "swaps",
                 [](MachineFacts& facts) { facts.compute.read_rate = 1e9; });
}

TEST(Checkup, SmallSharedMemoryIsAWarningAndAFullOneAProblemForMpi) {
  expect_verdict("/dev/shm", Verdict::kWarning, "--shm-size=1g", [](MachineFacts& facts) {
    facts.shared_memory = FileSystemSpace{.size = 64_MiB, .free = 64_MiB};
  });
  expect_verdict("/dev/shm", Verdict::kWarning, "OMPI_MCA_btl=tcp,self",
                 [](MachineFacts& facts) { facts.shared_memory.reset(); });
  expect_verdict("/dev/shm", Verdict::kProblem, "remove old files", [](MachineFacts& facts) {
    facts.shared_memory = FileSystemSpace{.size = 64_MiB, .free = 1_MiB};
  });
}

TEST(Checkup, AFolderWithoutRoomOrRightsIsAProblem) {
  expect_verdict("disk", Verdict::kProblem, "--out", [](MachineFacts& facts) {
    facts.out_speed.error = "cannot make a file: Read-only file system";
  });
  expect_verdict("disk", Verdict::kProblem, "no room",
                 [](MachineFacts& facts) { facts.out_space->free = 1023_MiB; });
  expect_verdict("disk", Verdict::kWarning, "small models",
                 [](MachineFacts& facts) { facts.out_space->free = 2048_MiB; });
  expect_verdict("disk", Verdict::kWarning, "slow",
                 [](MachineFacts& facts) { facts.out_speed.write_bytes_per_s = 10e6; });
}

TEST(Checkup, NoMpiOrAnotherMpiIsAWarning) {
  expect_verdict("mpi", Verdict::kWarning, "apt-get install openmpi-bin",
                 [](MachineFacts& facts) { facts.mpi = MpiInstall{}; });
  expect_verdict("mpi", Verdict::kWarning, "mpirun.openmpi", [](MachineFacts& facts) {
    facts.mpi.version = {.flavour = MpiFlavour::kMpich, .version = "4.0"};
  });
}

TEST(Checkup, RootIsToldWhatMpirunWants) {
  MachineFacts facts = good_machine();
  facts.mpi.is_root = true;
  for (const Check& check : check_machine(facts)) {
    if (check.name != "mpi") continue;
    EXPECT_THAT(check.found, HasSubstr("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
    EXPECT_EQ(check.verdict, Verdict::kOk);
  }
}

TEST(Checkup, AnEngineThatIsAbsentBrokenOrOfAnotherBuildIsSaidSo) {
  expect_verdict("weft-engine", Verdict::kWarning, "./run build",
                 [](MachineFacts& facts) { facts.engine = EngineState{}; });
  expect_verdict("weft-engine", Verdict::kProblem, "libtorch-dev", [](MachineFacts& facts) {
    facts.engine.build_id.clear();
    facts.engine.error = "exit code 127";
  });
  expect_verdict("weft-engine", Verdict::kProblem, "build both again",
                 [](MachineFacts& facts) { facts.engine.build_id = "ba9876543210"; });
}

}  // namespace
}  // namespace weft
