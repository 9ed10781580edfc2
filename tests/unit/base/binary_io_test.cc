#include "base/binary_io.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(BinaryIo, ValuesReadBackInOrder) {
  ByteWriter writer;
  writer.write<std::int32_t>(-5);
  writer.write_string("plan");
  writer.write(2.5);
  ByteReader reader(writer.bytes(), "test");
  EXPECT_EQ(reader.read<std::int32_t>(), -5);
  EXPECT_EQ(reader.read_string(), "plan");
  EXPECT_EQ(reader.read<double>(), 2.5);
  reader.expect_end();
}

TEST(BinaryIo, EveryTruncationIsAUserError) {
  ByteWriter writer;
  writer.write<std::uint64_t>(1);
  writer.write_string("abc");
  for (std::size_t size = 0; size < writer.bytes().size(); ++size) {
    ByteReader reader(writer.bytes().first(size), "plan.bin");
    EXPECT_THROW(
        {
          reader.read<std::uint64_t>();
          reader.read_string();
        },
        UserError);
  }
}

TEST(BinaryIo, AHugeCountIsRefusedBeforeAnyAllocation) {
  ByteWriter writer;
  writer.write<std::uint64_t>(~std::uint64_t{0});
  writer.write<std::uint64_t>(0);
  ByteReader reader(writer.bytes(), "plan.bin");
  EXPECT_THROW(reader.read_count(8), UserError);
  ByteReader again(writer.bytes(), "plan.bin");
  again.read<std::uint64_t>();
  EXPECT_THROW(again.expect_end(), UserError);
}

}  // namespace
}  // namespace weft
