#include "machine/resident_size.h"

#include "machine/memory_size.h"

namespace weft {

Bytes resident_size(const ReadSystemText& read) {
  const std::string status = read("/proc/self/status").value_or(std::string());
  return kibibytes_field(status, "RssAnon:").value_or(Bytes(0));
}

}  // namespace weft
