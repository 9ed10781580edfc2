#include "base/binary_io.h"

namespace weft {

void ByteWriter::append(const void* data, std::size_t size) {
  const std::size_t offset = bytes_.size();
  bytes_.resize(offset + size);
  if (size > 0) std::memcpy(bytes_.data() + offset, data, size);
}

}  // namespace weft
