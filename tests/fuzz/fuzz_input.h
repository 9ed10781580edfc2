// What the fuzz targets share. The rule of every target: any bytes give a value, or a UserError or
// IoError that says what is wrong with them. Anything else (another exception, a failed WEFT_CHECK,
// a sanitizer report, a hang, an allocation far beyond the input) ends the program, which is how
// libFuzzer and the replay count a finding.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace weft::fuzz {

using Input = std::span<const std::byte>;

// The target of this program; each of tests/fuzz/*_fuzz.cc defines it.
void run_target(Input input);

inline std::string_view as_text(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// What `read` returns, or nullopt when it refuses its bytes as it should: with a message.
template <std::invocable Read>
auto value_or_refusal(const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const UserError& error) {
    WEFT_CHECK(std::string_view(error.what()).size() > 8, "a refusal of '{}'", error.what());
  } catch (const IoError& error) {
    WEFT_CHECK(std::string_view(error.what()).size() > 8, "a refusal of '{}'", error.what());
  }
  return std::nullopt;
}

// A folder of its own, in memory where the system has such a place; removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, Input content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace weft::fuzz
