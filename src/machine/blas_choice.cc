#include "machine/blas_choice.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace weft {
namespace {

// As openblas_get_corename() spells them.
constexpr std::array<std::string_view, 16> kBeforeAvx2{
    "Katmai",  "Coppermine",   "Northwood",  "Prescott", "Banias",      "Atom",
    "Core2",   "Penryn",       "Dunnington", "Nehalem",  "Sandybridge", "Athlon",
    "Opteron", "Opteron_SSE3", "Barcelona",  "Nano"};

}  // namespace

std::string loaded_blas_core() {
  const auto core =
      reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return core == nullptr ? "" : core();
}

bool has_avx512_code(std::string_view core) {
  return core == "SkylakeX" || core == "Cooperlake" || core == "Sapphirerapids";
}

std::optional<std::string> fitting_blas_core(std::string_view core, const SimdLevel& simd) {
  if (std::find(kBeforeAvx2.begin(), kBeforeAvx2.end(), core) == kBeforeAvx2.end())
    return std::nullopt;
  if (simd.name.starts_with("AVX3")) return "SKYLAKEX";
  if (simd.name.starts_with("AVX2")) return "HASWELL";
  return std::nullopt;
}

void start_again_with_fitting_blas(char** argv) {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  if (std::getenv(kVariable) != nullptr) return;
  const std::string core = loaded_blas_core();
  const auto fitting = fitting_blas_core(core, simd_level());
  if (!fitting) return;
  ::setenv(kVariable, fitting->c_str(), 1);
  ::setenv("WEFT_BLAS_OWN_CORE", core.c_str(), 1);
  ::execv("/proc/self/exe", argv);
  log_warn(
      "OpenBLAS chose {} code for this CPU, a fraction of its speed, and starting again with {}={} "
      "failed: {}",
      core, kVariable, *fitting, std::strerror(errno));
}

}  // namespace weft
