// MachineFacts: everything that was found out about this machine, as one value. Finding out
// (measure_machine) and judging (checkup.h) are apart, so that verdicts are tested on machines that
// nobody has at hand.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "machine/blas_probe.h"
#include "machine/core_count.h"
#include "machine/disk_probe.h"
#include "machine/fma_peak.h"
#include "machine/memory_size.h"
#include "machine/mpi_install.h"

namespace weft {

struct ComputeFacts {
  SimdLevel simd;
  double clock_rate = 0;   // Hz, while computing
  double float_one = 0;    // FLOP/s, one thread, float32
  double double_one = 0;   // FLOP/s, one thread, float64
  double float_all = 0;    // FLOP/s, as many threads as cores are usable
  int num_threads = 1;     // of float_all
  double read_rate = 0;    // bytes/s, one thread
  double copy_rate = 0;    // bytes/s, one thread
  Bytes bandwidth_buffer;  // what was read and copied
};

struct BlasFacts {
  BlasInfo info;
  std::string core_override;  // $OPENBLAS_CORETYPE; empty when not set
  double sgemm = 0;           // FLOP/s on one thread; 0 when no library is loaded
  double dgemm = 0;
  double sgemm_share = 0;  // of the FMA peak measured alternately with it
  double dgemm_share = 0;
};

struct MachineFacts {
  CoreCount cores;
  MemorySize memory;
  ComputeFacts compute;
  BlasFacts blas;
  std::optional<FileSystemSpace> shared_memory;  // /dev/shm
  std::filesystem::path out;                     // the folder that was asked about
  std::optional<FileSystemSpace> out_space;
  DiskSpeed out_speed;
  MpiInstall mpi;
  EngineState engine;
  std::string build_id;  // of the program that asks
};

struct MeasureOptions {
  std::filesystem::path out = ".";       // results would go here
  std::filesystem::path program_folder;  // where weft-engine is looked for
  std::string search_path;               // $PATH
  std::string blas_core_override;        // $OPENBLAS_CORETYPE
  std::string build_id;
  // Called before each part with its name and its place in [0, num_parts).
  std::function<void(std::string_view part, int index, int num_parts)> on_part;
};

// Takes three to eight seconds. Only reads, except for one temporary file in `out`.
MachineFacts measure_machine(const MeasureOptions& options);

}  // namespace weft
