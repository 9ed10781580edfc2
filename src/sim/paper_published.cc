#include "sim/paper_published.h"

#include <vector>

namespace weft {

std::span<const PaperPanel> paper_panels() {
  static const std::vector<PaperPanel> kPanels{
      {"llama-7b", "github", 1024, {1.28, 1.51, 2.25, 3.96}, {1.73, 2.49, 4.56, 7.89}, true},
      {"llama-7b", "byted", 1024, {1.23, 1.42, 1.61, 2.43}, {1.68, 1.98, 2.34, 4.26}, true},
      {"llama-13b", "github", 2048, {1.26, 1.50, 2.59, 3.67}, {1.65, 2.22, 4.15, 6.88}, true},
      {"llama-13b", "byted", 2048, {1.21, 1.26, 1.51, 2.27}, {1.53, 1.69, 2.28, 4.13}, true},
      {"llama-30b", "github", 4096, {1.18, 1.28, 2.15, 3.39}, {1.54, 2.07, 3.48, 6.21}, true},
      {"llama-30b", "byted", 4096, {1.17, 1.23, 1.62, 2.30}, {1.49, 1.58, 2.06, 3.80}, true},
      {"llama-70b", "github", 8192, {1.19, 1.41, 1.98, 2.45}, {1.41, 1.89, 3.05, 4.28}, false},
      {"llama-70b", "byted", 8192, {1.22, 1.24, 1.26, 1.79}, {1.52, 1.70, 1.93, 2.84}, false},
      {"mixtral-8x7b", "github", 8192, {1.15, 1.18, 1.27, 1.98}, {1.46, 1.52, 1.84, 3.42}, false},
      {"mixtral-8x7b", "byted", 8192, {1.17, 1.20, 1.27, 1.35}, {1.45, 1.63, 1.75, 2.18}, false},
      // "> 12K GPUs": 12,288 assumed.
      {"mixtral-8x22b", "github", 12288, {1.12, 1.27, 1.86, 2.75}, {1.28, 1.59, 2.72, 4.13}, false},
      {"mixtral-8x22b", "byted", 12288, {1.15, 1.20, 1.35, 1.67}, {1.34, 1.47, 1.73, 2.41}, false}};
  return kPanels;
}

}  // namespace weft
