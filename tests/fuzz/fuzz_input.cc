#include "tests/fuzz/fuzz_input.h"

#include <stdlib.h>

#include <fstream>

namespace weft::fuzz {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  const fs::path memory = "/dev/shm";
  std::string name = (fs::exists(memory) ? memory : fs::temp_directory_path()) / "weft_fuzz_XXXXXX";
  WEFT_CHECK(::mkdtemp(name.data()) != nullptr, "no folder '{}'", name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path ScratchFolder::write(std::string_view name, Input content) const {
  const fs::path path = path_ / name;
  std::ofstream out(path, std::ios::binary);
  out << as_text(content);
  out.close();
  WEFT_CHECK(out.good(), "cannot write '{}'", path.string());
  return path;
}

}  // namespace weft::fuzz
