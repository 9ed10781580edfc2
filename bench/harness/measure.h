// Takes samples of a thing and of its limit, alternately.
#pragma once

#include <functional>
#include <string>

#include "bench/harness/row.h"

namespace weft::bench {

struct Measurement {
  std::string name;
  std::string unit;
  Better better = Better::kHigher;
  std::function<double()> sample;      // one value, in `unit`
  std::string limit_name = {};         // with `limit`
  std::function<double()> limit = {};  // one sample of the limit, in `unit`; may be empty
  int warm_up = 1;                     // samples that do not count
  int least_samples = 5;
  int most_samples = 40;
  double enough_s = 1.5;  // no further sample once this has passed and least_samples are there
};

Row measure(const Measurement& measurement);

}  // namespace weft::bench
