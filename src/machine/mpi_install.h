// Which MPI would start ranks here, and whether weft-engine beside this program is of this build.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

enum class MpiFlavour { kNone, kOpenMpi, kMpich, kIntel, kUnknown };
std::string_view to_string(MpiFlavour flavour);

struct MpiVersion {
  MpiFlavour flavour = MpiFlavour::kNone;
  std::string version = {};  // "4.1.4"; empty when unknown
};
// What `mpirun --version` printed.
MpiVersion parse_mpirun_version(std::string_view text);

struct MpiInstall {
  std::string mpirun;  // path; empty when PATH has none
  MpiVersion version;
  bool is_root = false;  // Open MPI refuses root unless two variables are set
};
MpiInstall find_mpi(const std::string& search_path);

// "weft-engine 0.1.0 (build 1a2b3c4d5e6f)" -> "1a2b3c4d5e6f"; empty when there is none.
std::string parse_build_id(std::string_view version_text);

struct EngineState {
  bool exists = false;
  std::string path;
  std::string build_id;  // empty: it did not start
  std::string error;     // what it said instead
};
EngineState find_engine(const std::filesystem::path& folder);

}  // namespace weft
