#include "optim/adamw.h"

#include <cmath>

#include "base/error.h"
#include "optim/adamw_kernel.h"

namespace weft {
namespace {

void check_options(const AdamWOptions& options, at::ScalarType dtype) {
  WEFT_USER_CHECK(options.beta1 >= 0 && options.beta1 < 1,
                  "AdamW beta1: expected 0 <= beta1 < 1, got {}", options.beta1);
  WEFT_USER_CHECK(options.beta2 >= 0 && options.beta2 < 1,
                  "AdamW beta2: expected 0 <= beta2 < 1, got {}", options.beta2);
  const double eps =
      dtype == at::kFloat ? static_cast<double>(static_cast<float>(options.eps)) : options.eps;
  // A parameter without gradient divides 0 by eps.
  WEFT_USER_CHECK(eps > 0 && std::isfinite(eps),
                  "AdamW eps: expected a number above 0 in {}, got {}", dtype_name(dtype),
                  options.eps);
  WEFT_USER_CHECK(options.weight_decay >= 0 && std::isfinite(options.weight_decay),
                  "AdamW weight_decay: expected a number of at least 0, got {}",
                  options.weight_decay);
}

template <class T>
AdamWFactors<T> make_factors(const AdamWOptions& options, std::int64_t num_updates, double lr,
                             double gradient_scale) {
  const auto t = static_cast<double>(num_updates);
  return {.gradient_scale = static_cast<T>(gradient_scale),
          .beta1 = static_cast<T>(options.beta1),
          .one_minus_beta1 = static_cast<T>(1 - options.beta1),
          .beta2 = static_cast<T>(options.beta2),
          .one_minus_beta2 = static_cast<T>(1 - options.beta2),
          .step_size = static_cast<T>(lr / (1 - std::pow(options.beta1, t))),
          .second_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
          .eps = static_cast<T>(options.eps),
          .decay = static_cast<T>(lr * options.weight_decay)};
}

template <class T>
void update_parameters(ParameterSet& parameters, const at::Tensor& first_moments,
                       const at::Tensor& second_moments, const AdamWFactors<T>& factors) {
  for (const ParameterInfo& info : parameters.infos()) {
    AdamWFactors<T> own = factors;
    if (!info.decays) own.decay = 0;
    const AdamWElements<T> elements = {
        .values = parameters.flat_values().data_ptr<T>() + info.offset,
        .gradients = parameters.flat_gradients().data_ptr<T>() + info.offset,
        .first_moments = first_moments.data_ptr<T>() + info.offset,
        .second_moments = second_moments.data_ptr<T>() + info.offset};
    adamw_update(elements, info.size, own);
  }
}

}  // namespace

AdamW::AdamW(const ParameterSet& parameters, const AdamWOptions& options)
    : options_(options),
      first_moments_(at::zeros_like(parameters.flat_values())),
      second_moments_(at::zeros_like(parameters.flat_values())) {
  const at::ScalarType dtype = parameters.flat_values().scalar_type();
  WEFT_CHECK(dtype == at::kFloat || dtype == at::kDouble, "AdamW in {}", dtype_name(dtype));
  check_options(options, dtype);
}

void AdamW::update(ParameterSet& parameters, double lr, double gradient_scale) {
  WEFT_CHECK(lr >= 0 && std::isfinite(lr), "learning rate {}", lr);
  WEFT_CHECK(gradient_scale >= 0 && std::isfinite(gradient_scale), "gradient scale {}",
             gradient_scale);
  WEFT_CHECK_EQ(parameters.size(), first_moments_.numel(),
                "the moments belong to other parameters");
  ++num_updates_;
  if (first_moments_.scalar_type() == at::kFloat) {
    update_parameters(parameters, first_moments_, second_moments_,
                      make_factors<float>(options_, num_updates_, lr, gradient_scale));
  } else {
    update_parameters(parameters, first_moments_, second_moments_,
                      make_factors<double>(options_, num_updates_, lr, gradient_scale));
  }
}

}  // namespace weft
