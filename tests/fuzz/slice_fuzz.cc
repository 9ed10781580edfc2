// Plan slices, as a peer sends them. First byte as in plan_fuzz.cc.
#include "plan/plan_slice.h"
#include "plan/plan_wire.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  if (input.empty()) return;
  const bool is_framed = (std::to_integer<int>(input[0]) & 1) != 0;
  input = input.subspan(1);
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (is_framed) bytes = plan_wire::wrap("WEFTSLIC", kSliceVersion, input);
  const auto slice = value_or_refusal([&] { return decode_slice(bytes, "fuzz.slice"); });
  if (!slice) return;
  WEFT_CHECK(encode_slice(*slice) == bytes, "a slice that decodes has other bytes");
}

}  // namespace weft::fuzz
