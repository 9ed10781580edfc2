// The BLAS that programs of this machine get at run time (Debian's alternatives decide behind
// libblas.so.3), loaded with dlopen: this module links none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

enum class BlasFlavour : std::uint8_t {
  kNone,
  kOpenBlas,
  kReference,
  kAtlas,
  kBlis,
  kMkl,
  kUnknown
};
std::string_view to_string(BlasFlavour flavour);

// By the path that the library's name leads to, "/usr/lib/x86_64-linux-gnu/openblas-pthread/...".
BlasFlavour flavour_of_path(std::string_view real_path);

struct BlasInfo {
  BlasFlavour flavour = BlasFlavour::kNone;
  std::string path;     // real path of the loaded library; empty when none could be loaded
  std::string config;   // openblas_get_config(), or empty
  std::string core;     // openblas_get_corename(): the CPU whose code it chose, or empty
  int num_threads = 0;  // that the library would use; 0 = unknown
  std::string error;    // the loader's reason when there is none
};

// A loaded BLAS, set to one thread where the library allows it.
class BlasProbe {
 public:
  explicit BlasProbe(const std::string& library = "libblas.so.3");
  ~BlasProbe();
  BlasProbe(const BlasProbe&) = delete;
  BlasProbe& operator=(const BlasProbe&) = delete;

  const BlasInfo& info() const { return info_; }
  bool loaded() const { return handle_ != nullptr; }
  // FLOP/s of one size x size x size product. InternalError when it gives a wrong result.
  // REQUIRES: loaded().
  double sample_sgemm(int size) const;
  double sample_dgemm(int size) const;

 private:
  template <class T>
  double sample_gemm(void* function, int size) const;

  void* handle_ = nullptr;
  void* sgemm_ = nullptr;
  void* dgemm_ = nullptr;
  BlasInfo info_;
};

}  // namespace weft
