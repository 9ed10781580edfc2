#include "machine/blas_probe.h"

#include <dlfcn.h>
#include <link.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "machine/work_clock.h"

namespace weft {
namespace {

// Fortran's calling convention: everything by pointer; compilers that pass the lengths of strings
// pass them last, and no BLAS reads them.
template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*,
                      const T*, const int*, const T*, const int*, const T*, T*, const int*);

std::string real_path_of(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  std::error_code error;
  const auto path = std::filesystem::canonical(map->l_name, error);
  return error ? std::string(map->l_name) : path.string();
}

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(::dlsym(handle, name));
}

}  // namespace

std::string_view to_string(BlasFlavour flavour) {
  switch (flavour) {
    case BlasFlavour::kNone:
      return "none";
    case BlasFlavour::kOpenBlas:
      return "OpenBLAS";
    case BlasFlavour::kReference:
      return "reference BLAS";
    case BlasFlavour::kAtlas:
      return "ATLAS";
    case BlasFlavour::kBlis:
      return "BLIS";
    case BlasFlavour::kMkl:
      return "MKL";
    case BlasFlavour::kUnknown:
      break;
  }
  return "unknown BLAS";
}

BlasFlavour flavour_of_path(std::string_view real_path) {
  struct Mark {
    std::string_view word;
    BlasFlavour flavour;
  };
  for (const Mark& mark :
       {Mark{"openblas", BlasFlavour::kOpenBlas}, Mark{"atlas", BlasFlavour::kAtlas},
        Mark{"blis", BlasFlavour::kBlis}, Mark{"mkl", BlasFlavour::kMkl}}) {
    if (real_path.find(mark.word) != std::string_view::npos) return mark.flavour;
  }
  // Debian's libblas3 lives in .../blas/libblas.so.3.11.0.
  if (real_path.find("/blas/libblas.so") != std::string_view::npos) return BlasFlavour::kReference;
  return real_path.empty() ? BlasFlavour::kNone : BlasFlavour::kUnknown;
}

BlasProbe::BlasProbe(const std::string& library) {
  handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    info_.error = reason == nullptr ? "unknown" : reason;
    return;
  }
  sgemm_ = ::dlsym(handle_, "sgemm_");
  dgemm_ = ::dlsym(handle_, "dgemm_");
  if (sgemm_ == nullptr || dgemm_ == nullptr) {
    info_.error = fmt::format("{} has no sgemm_ and dgemm_", library);
    ::dlclose(handle_);
    handle_ = nullptr;
    return;
  }
  info_.path = real_path_of(handle_);
  info_.flavour = flavour_of_path(info_.path);
  if (const auto config = symbol<const char* (*)()>(handle_, "openblas_get_config")) {
    info_.flavour = BlasFlavour::kOpenBlas;
    info_.config = config();
  }
  if (const auto core = symbol<const char* (*)()>(handle_, "openblas_get_corename"))
    info_.core = core();
  if (const auto threads = symbol<int (*)()>(handle_, "openblas_get_num_threads"))
    info_.num_threads = threads();
  if (const auto set = symbol<void (*)(int)>(handle_, "openblas_set_num_threads")) set(1);
}

BlasProbe::~BlasProbe() {
  // Never unloaded: OpenBLAS's threads may still be inside it.
}

template <class T>
double BlasProbe::sample_gemm(void* function, int size) const {
  const auto gemm = reinterpret_cast<Gemm<T>>(function);
  const auto count = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  const std::vector<T> a(count, T(0.5));
  const std::vector<T> b(count, T(2));
  std::vector<T> c(count, T(-1));
  const T one = 1;
  const T zero = 0;
  const WorkClock work;
  gemm("N", "N", &size, &size, &size, &one, a.data(), &size, b.data(), &size, &zero, c.data(),
       &size);
  const double elapsed_s = work.elapsed_s();
  // Each element is a sum of `size` ones: exact in both types.
  for (const std::size_t i : {std::size_t{0}, count / 2, count - 1})
    WEFT_CHECK_EQ(c[i], T(size), "{} multiplies wrongly (element {})", info_.path, i);
  return 2.0 * size * size * static_cast<double>(size) / elapsed_s;
}

double BlasProbe::sample_sgemm(int size) const { return sample_gemm<float>(sgemm_, size); }
double BlasProbe::sample_dgemm(int size) const { return sample_gemm<double>(dgemm_, size); }

}  // namespace weft
