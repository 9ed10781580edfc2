// The training configuration: TOML, then, behind each NUL byte, one argument of the command line.
#include "tests/fuzz/fuzz_input.h"
#include "train/config.h"

namespace weft::fuzz {

void run_target(Input input) {
  std::string_view rest = as_text(input);
  const std::string toml(rest.substr(0, rest.find('\0')));
  std::vector<std::string> arguments;
  while (rest.find('\0') != std::string_view::npos) {
    rest.remove_prefix(rest.find('\0') + 1);
    arguments.emplace_back(rest.substr(0, rest.find('\0')));
  }
  const auto config = value_or_refusal(
      [&] { return parse_train_config(toml, "fuzz.toml", parse_overrides(arguments)); });
  if (!config) return;
  const TrainConfig again = parse_train_config(to_toml(*config), "again.toml", {});
  WEFT_CHECK(again == *config && diff(again, *config).empty(), "reads back otherwise:\n{}",
             to_toml(*config));
}

}  // namespace weft::fuzz
