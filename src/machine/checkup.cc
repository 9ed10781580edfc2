#include "machine/checkup.h"

#include <algorithm>

#include "machine/blas_choice.h"

namespace weft {
namespace {

// Below these a run works badly or not at all.
constexpr Bytes kFewMemory = 4096_MiB;    // a small model's training fits
constexpr Bytes kNoMemory = 512_MiB;      // libtorch alone takes a third of it
constexpr Bytes kSmallShm = 256_MiB;      // Open MPI takes about 4 MiB per pair of local ranks
constexpr Bytes kLittleDisk = 10240_MiB;  // a few checkpoints of a small model
constexpr Bytes kNoDisk = 1024_MiB;
constexpr double kSlowWrite = 50e6;    // bytes/s: a checkpoint of 10 GB takes minutes
constexpr double kLowBlasShare = 0.6;  // OpenBLAS reaches 0.8 and more of the FMA peak
constexpr double kLowScaling = 0.7;    // of k times one thread
constexpr double kSlowMemory = 3e9;    // bytes/s of one thread

void warn(Check& check, std::string advice, Verdict verdict = Verdict::kWarning) {
  check.verdict = std::max(check.verdict, verdict);
  if (!check.advice.empty()) check.advice += "; ";
  check.advice += std::move(advice);
}

std::string giga(double rate) { return fmt::format("{:.1f} G", rate * 1e-9); }

Check check_cores(const CoreCount& cores) {
  Check check{.name = "cores"};
  const std::string limit =
      cores.cpu_time ? fmt::format("{:.2g} by cgroup", *cores.cpu_time) : "no cgroup limit";
  check.found = fmt::format("{} usable: {} in the machine, {} by affinity, {}", cores.usable(),
                            cores.hardware, cores.affinity, limit);
  check.values = {
      {"hardware", cores.hardware}, {"affinity", cores.affinity}, {"usable", cores.usable()}};
  if (cores.cpu_time) check.values.emplace_back("cgroup_cores", *cores.cpu_time);
  if (cores.cpu_time && *cores.cpu_time < std::min(cores.hardware, cores.affinity)) {
    warn(check,
         fmt::format("the control group gives {:.2g} cores' time, so more than {} threads "
                     "are stopped and started: keep ranks x threads at {} or raise the limit",
                     *cores.cpu_time, cores.usable(), cores.usable()));
  } else if (cores.affinity < cores.hardware) {
    warn(check, fmt::format("only {} of {} cores may be used: a taskset, cpuset, batch system or "
                            "mpirun's binding (--bind-to none) holds the rest back",
                            cores.affinity, cores.hardware));
  }
  return check;
}

bool is_avx512(const SimdLevel& simd) { return simd.name.starts_with("AVX3"); }

Check check_simd(const SimdLevel& simd) {
  Check check{.name = "simd"};
  check.found =
      fmt::format("{}: {} float lanes", is_avx512(simd) ? "AVX-512" : simd.name, simd.float_lanes);
  check.values = {{"float_lanes", simd.float_lanes}, {"double_lanes", simd.double_lanes}};
  const bool is_wide = simd.float_lanes >= 8;
  const bool is_arm = simd.name.starts_with("NEON") || simd.name.starts_with("SVE");
  if (!is_wide && !is_arm) {
    warn(check,
         "no AVX2: every matrix product takes two to four times as long; on a virtual "
         "machine ask for the host's CPU model (for instance -cpu host)");
  }
  return check;
}

Check check_fma(const ComputeFacts& compute) {
  Check check{.name = "fma peak"};
  const double per_cycle = compute.clock_rate > 0 ? compute.float_one / compute.clock_rate : 0;
  const double scaling =
      compute.float_one > 0 ? compute.float_all / (compute.num_threads * compute.float_one) : 0;
  check.found = fmt::format(
      "{}FLOP/s float, {}FLOP/s double on one thread ({:.0f} float FLOP per cycle at {:.2f} GHz); "
      "{}FLOP/s on {} ({:.0f} %)",
      giga(compute.float_one), giga(compute.double_one), per_cycle, compute.clock_rate * 1e-9,
      giga(compute.float_all), compute.num_threads, 100 * scaling);
  check.values = {
      {"float_flops_per_s", compute.float_one},     {"double_flops_per_s", compute.double_one},
      {"float_all_flops_per_s", compute.float_all}, {"threads", compute.num_threads},
      {"float_flops_per_cycle", per_cycle},         {"clock_hz", compute.clock_rate}};
  if (scaling < kLowScaling) {
    warn(check, fmt::format("{} threads do {:.0f} % of {} times one: other programs run, two "
                            "threads share a core, or the clock drops; look at top, and give ranks "
                            "whole cores",
                            compute.num_threads, 100 * scaling, compute.num_threads));
  }
  return check;
}

std::string slow_blas_advice(const BlasFacts& blas, const SimdLevel& simd) {
  const bool wastes_avx512 =
      is_avx512(simd) && !blas.info.core.empty() && !has_avx512_code(blas.info.core);
  if (wastes_avx512 && !blas.core_override.empty()) {
    return fmt::format(
        "OPENBLAS_CORETYPE={} in the environment chose code without AVX-512, which this CPU has: "
        "unset it",
        blas.core_override);
  }
  if (wastes_avx512) {
    return fmt::format(
        "OpenBLAS chose code without AVX-512, which this CPU has: set OPENBLAS_CORETYPE=SKYLAKEX{}",
        fitting_blas_core(blas.info.core, simd) ? " (weft train and weft profile do so themselves)"
                                                : "");
  }
  return "slow for a tuned BLAS: other programs run, or it chose code for another CPU "
         "(OPENBLAS_VERBOSE=2 says which, OPENBLAS_CORETYPE sets it)";
}

Check check_blas(const BlasFacts& blas, const SimdLevel& simd, bool has_engine) {
  Check check{.name = "blas"};
  const BlasInfo& info = blas.info;
  if (info.flavour == BlasFlavour::kNone) {
    check.found = fmt::format("none ({})", info.error);
    warn(check, "apt-get install libopenblas-dev; weft-engine needs a BLAS",
         has_engine ? Verdict::kProblem : Verdict::kWarning);
    return check;
  }
  check.found = fmt::format(
      "{}{} ({}), {} threads; one thread: sgemm {}FLOP/s, {:.0f} % of the fma peak, dgemm "
      "{}FLOP/s, {:.0f} %",
      to_string(info.flavour), info.core.empty() ? "" : fmt::format(" with {} code", info.core),
      info.path, info.num_threads > 0 ? std::to_string(info.num_threads) : "unknown",
      giga(blas.sgemm), 100 * blas.sgemm_share, giga(blas.dgemm), 100 * blas.dgemm_share);
  check.values = {{"sgemm_flops_per_s", blas.sgemm},
                  {"sgemm_share", blas.sgemm_share},
                  {"dgemm_flops_per_s", blas.dgemm},
                  {"dgemm_share", blas.dgemm_share},
                  {"threads", info.num_threads}};
  if (info.flavour == BlasFlavour::kReference) {
    warn(check,
         "reference BLAS: apt-get install libopenblas-dev; matrix products take ten times "
         "as long until then",
         Verdict::kProblem);
  } else if (blas.sgemm_share < kLowBlasShare) {
    warn(check, slow_blas_advice(blas, simd));
  }
  return check;
}

Check check_memory(const MemorySize& memory) {
  Check check{.name = "memory"};
  const std::string limit = memory.group_limit
                                ? fmt::format("cgroup limit {}", format_bytes(*memory.group_limit))
                                : "no cgroup limit";
  check.found = fmt::format("{} usable: {} available of {}, {}", format_bytes(memory.usable()),
                            format_bytes(memory.available), format_bytes(memory.total), limit);
  check.values = {{"usable_bytes", static_cast<double>(memory.usable().value())},
                  {"available_bytes", static_cast<double>(memory.available.value())},
                  {"total_bytes", static_cast<double>(memory.total.value())}};
  if (memory.usable() < kNoMemory) {
    warn(check,
         "too little to train anything: end other programs or raise the container's limit "
         "(docker run --memory)",
         Verdict::kProblem);
  } else if (memory.usable() < kFewMemory) {
    warn(check, "enough for tests and tiny models only; plan.capacity bounds what a rank holds");
  }
  return check;
}

Check check_bandwidth(const ComputeFacts& compute) {
  Check check{.name = "memory bandwidth"};
  check.found =
      fmt::format("read {}B/s, copy {}B/s on one thread ({} buffers)", giga(compute.read_rate),
                  giga(compute.copy_rate), format_bytes(compute.bandwidth_buffer));
  check.values = {{"read_bytes_per_s", compute.read_rate}, {"copy_bytes_per_s", compute.copy_rate}};
  if (compute.read_rate < kSlowMemory) {
    warn(check,
         "far below what a memory channel gives: other programs use it, or the machine "
         "swaps; the optimizer and every exchange wait for it");
  }
  return check;
}

Check check_shm(const std::optional<FileSystemSpace>& shm, const MpiInstall& mpi) {
  Check check{.name = "/dev/shm"};
  const bool has_mpi = mpi.version.flavour != MpiFlavour::kNone;
  const std::string way_out =
      "start the container with --shm-size=1g, or set "
      "OMPI_MCA_btl=tcp,self (slower)";
  if (!shm) {
    check.found = "does not exist";
    warn(check, fmt::format("ranks under mpirun share memory through it: mount a tmpfs there, {}",
                            way_out));
    return check;
  }
  check.found = fmt::format("{} free of {}", format_bytes(shm->free), format_bytes(shm->size));
  check.values = {{"size_bytes", static_cast<double>(shm->size.value())},
                  {"free_bytes", static_cast<double>(shm->free.value())}};
  if (shm->free < 16_MiB && has_mpi) {
    warn(check, fmt::format("Open MPI's shared memory will fail: remove old files, {}", way_out),
         Verdict::kProblem);
  } else if (shm->free < kSmallShm) {
    warn(check, fmt::format("Open MPI's shared memory will fail with more than a few ranks: {}; "
                            "ranks that are threads do not need it",
                            way_out));
  }
  return check;
}

Check check_disk(const MachineFacts& facts) {
  Check check{.name = "disk"};
  const std::string folder = facts.out.string();
  if (!facts.out_speed.error.empty()) {
    check.found = fmt::format("{}: {}", folder, facts.out_speed.error);
    warn(check,
         "nothing can be saved there: choose another folder with --out, or mend its rights "
         "and space",
         Verdict::kProblem);
    return check;
  }
  const FileSystemSpace space = facts.out_space.value_or(FileSystemSpace{});
  check.found =
      fmt::format("{}: {} free, writes {:.0f} MB/s, fsync {}", folder, format_bytes(space.free),
                  facts.out_speed.write_bytes_per_s * 1e-6, format_duration(facts.out_speed.fsync));
  check.values = {{"free_bytes", static_cast<double>(space.free.value())},
                  {"write_bytes_per_s", facts.out_speed.write_bytes_per_s},
                  {"fsync_s", seconds(facts.out_speed.fsync)}};
  if (space.free < kNoDisk) {
    warn(check, "no room for a checkpoint: free some space or choose another folder with --out",
         Verdict::kProblem);
  } else if (space.free < kLittleDisk) {
    warn(check, "room for small models' checkpoints only (12 bytes per parameter each)");
  }
  if (facts.out_speed.write_bytes_per_s < kSlowWrite)
    warn(check, "slow: a checkpoint of 1 GB takes more than 20 s; choose a local disk");
  return check;
}

Check check_mpi(const MpiInstall& mpi) {
  Check check{.name = "mpi"};
  const auto flavour = mpi.version.flavour;
  if (flavour == MpiFlavour::kNone) {
    check.found = "no mpirun on PATH";
    warn(check, "ranks are threads of one process until then: apt-get install openmpi-bin");
    return check;
  }
  check.found = fmt::format("{} {} ({})", to_string(flavour), mpi.version.version, mpi.mpirun);
  if (flavour != MpiFlavour::kOpenMpi) {
    warn(check,
         "weft-engine is built for Open MPI, and another mpirun starts its ranks as "
         "separate runs: name mpirun.openmpi, or put Open MPI first on PATH");
  } else if (mpi.is_root) {
    check.found +=
        "; as root mpirun needs OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  }
  return check;
}

Check check_engine(const EngineState& engine, const std::string& build_id) {
  Check check{.name = "weft-engine"};
  if (!engine.exists) {
    check.found = fmt::format("not there ({})", engine.path);
    warn(check, "planning works, training does not: build it with ./run build");
  } else if (engine.build_id.empty()) {
    check.found = fmt::format("does not start: {}", engine.error);
    warn(check,
         fmt::format("see what it lacks: ldd {}; libtorch: apt-get install libtorch-dev",
                     engine.path),
         Verdict::kProblem);
  } else if (engine.build_id != build_id) {
    check.found = fmt::format("build {}, but weft is build {}", engine.build_id, build_id);
    warn(check, "weft train will refuse it: build both again with ./run build", Verdict::kProblem);
  } else {
    check.found = fmt::format("build {}, as weft", engine.build_id);
  }
  return check;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      break;
  }
  return "problem";
}

std::vector<Check> check_machine(const MachineFacts& facts) {
  return {check_cores(facts.cores),
          check_simd(facts.compute.simd),
          check_fma(facts.compute),
          check_blas(facts.blas, facts.compute.simd, facts.engine.exists),
          check_memory(facts.memory),
          check_bandwidth(facts.compute),
          check_shm(facts.shared_memory, facts.mpi),
          check_disk(facts),
          check_mpi(facts.mpi),
          check_engine(facts.engine, facts.build_id)};
}

Verdict worst_verdict(const std::vector<Check>& checks) {
  Verdict worst = Verdict::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.verdict);
  return worst;
}

}  // namespace weft
