// What libFuzzer calls.
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::fuzz::run_target(std::as_bytes(std::span(data, size)));
  return 0;
}
