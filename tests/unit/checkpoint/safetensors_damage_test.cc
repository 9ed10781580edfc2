// Each damage of a safetensors file has its own message, with file name and offset (C077).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "tests/unit/checkpoint/temporary_directory.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::filesystem::path& path) {
  try {
    load_safetensors(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(const TemporaryDirectory& directory, std::string_view bytes) {
  const auto path = directory / "damaged.safetensors";
  write_file_atomically(path, bytes);
  return refusal(path);
}

// Two float tensors of 2 and 1 elements; 12 bytes of data.
constexpr std::string_view kGood =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";

struct Damage {
  std::string header;
  std::string data;
  std::vector<std::string> expected;
};

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

std::vector<Damage> damages() {
  const std::string good(kGood);
  const std::string data(12, 'x');
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.rfind(from), from.size(), to);
  };
  return {
      {good, data.substr(1), {"tensor 'b'", "truncated", "only 11 bytes"}},
      {good, "", {"truncated", "only 0 bytes"}},
      {good,
       data + "x",
       {fmt::format("offset {}:", 8 + good.size() + 12),
        "1 unexpected bytes after the last tensor"}},
      {"{}", "x", {"offset 10:", "1 unexpected bytes"}},
      {replaced("[8,12]", "[4,8]"), data.substr(4), {"'b' overlaps 'a' by 4 bytes", "offset "}},
      {replaced("[8,12]", "[9,13]"),
       data + "x",
       {"a hole of 1 bytes between 'a' and 'b'", "offset "}},
      {replaced("[0,8]", "[1,9]"), data, {"a hole of 1 bytes between the header and 'a'"}},
      {replaced("[8,12]", "[12,8]"), data, {"tensor 'b'", "[12, 8] run backwards"}},
      {replaced("[8,12]", "[8,13]"), data + "x", {"F32 with shape [1] takes 4 bytes", "span 5"}},
      {replaced("[8,12]", "[8]"),
       data,
       {"data_offsets of tensor 'b'", "expected 2 numbers, got 1"}},
      {replaced("[8,12]", "[8,10,12]"), data, {"data_offsets of tensor 'b'", "got 3"}},
      {replaced("[8,12]", "[8,-12]"), data, {"data_offsets of tensor 'b'", "got the number -12"}},
      {replaced("[8,12]", "[8,12.0]"), data, {"data_offsets of tensor 'b'", "got the number 12.0"}},
      {replaced("[8,12]", "[8,\"12\"]"), data, {"data_offsets of tensor 'b'", "got the text '12'"}},
      {replaced("[8,12]", "[8,[12]]"), data, {"data_offsets of tensor 'b'", "got an array"}},
      {replaced("[8,12]", "12"),
       data,
       {"data_offsets of tensor 'b'", "expected an array of numbers"}},
      {replaced("\"b\"", "\"a\""), data, {"duplicate key 'a'"}},
      {replaced("\"shape\":[1]", "\"dtype\":\"F32\""), data, {"duplicate key 'dtype'"}},
      {replaced("\"shape\":[1],", ""), data, {"tensor 'b' has no shape"}},
      {replaced("\"dtype\":\"F32\",", ""), data, {"tensor 'b' has no dtype"}},
      {replaced(",\"data_offsets\":[8,12]", ""), data, {"tensor 'b' has no data_offsets"}},
      {replaced("\"shape\"", "\"shapes\""), data, {"unknown key 'shapes' of tensor 'b'"}},
      {replaced("F32", "F31"), data, {"tensor 'b'", "unknown dtype 'F31'"}},
      {replaced("\"F32\"", "3"),
       data,
       {"dtype of tensor 'b'", "expected a text, got the number 3"}},
      {replaced("\"F32\"", "null"), data, {"dtype of tensor 'b'", "got null"}},
      {replaced("\"F32\"", "{}"), data, {"dtype of tensor 'b'", "got an object"}},
      {entry("U16", "[1]", "[0,2]"),
       "xx",
       {"tensor 't'", "dtype U16 is valid, but libtorch has no tensor of it"}},
      {entry("F32", "[4611686018427387904,4]", "[0,0]"), "", {"tensor 't'", "overflows 63 bits"}},
      {entry("F32", "[0,4611686018427387904,4]", "[0,0]"), "", {"tensor 't'", "overflows 63 bits"}},
      {entry("U8", "[18446744073709551615]", "[0,1]"),
       "x",
       {"tensor 't'", "extent of 18446744073709551615"}},
      {entry("U8", "[1000000000000]", "[0,1000000000000]"),
       "x",
       {"tensor 't'", "truncated", "1000000000000"}},
      {entry("U8", "[1]", "[18446744073709551615,18446744073709551615]"),
       "x",
       {"tensor 't'", "span 0"}},
      {R"({"__metadata__":{"epoch":3}})",
       "",
       {"metadata 'epoch'", "expected a text, got the number 3"}},
      {R"({"__metadata__":{"a":{"b":"c"}}})", "", {"metadata 'a'", "got an object"}},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "", {"duplicate key 'a'"}},
      {R"({"__metadata__":{},"__metadata__":{}})", "", {"duplicate key '__metadata__'"}},
      {R"({"__metadata__":"pt"})", "", {"'__metadata__': expected an object, got the text 'pt'"}},
      {R"({"t":[1]})", "", {"'t': expected an object, got an array"}},
      {R"([{"t":1}])", "", {"offset 8", "must start with '{'", "0x5b"}},
      {R"( {})", "", {"offset 8", "must start with '{'", "0x20"}},
      {"", "", {"offset 8", "must start with '{', got nothing"}},
      {R"({"t")", "", {"not valid JSON"}},
      {R"({"t":{"dtype":"F32","shape":[1)", "", {"not valid JSON"}},
      {R"({} {})", "", {"not valid JSON"}},
      {R"({} x)", "", {"not valid JSON"}},
      {std::string("{\"\xff\":1}"), "", {"not valid JSON"}},
      {std::string("{}\0", 3), "", {"not valid JSON"}},
  };
}

TEST(SafetensorsDamage, EachDamageHasItsOwnMessageWithTheFileName) {
  const TemporaryDirectory directory;
  EXPECT_EQ(refusal_of(directory, raw_file(kGood, std::string(12, 'x'))), "accepted");
  for (const Damage& damage : damages()) {
    const std::string message = refusal_of(directory, raw_file(damage.header, damage.data));
    EXPECT_THAT(message, HasSubstr("damaged.safetensors'")) << damage.header;
    for (const std::string& part : damage.expected)
      EXPECT_THAT(message, HasSubstr(part)) << damage.header;
  }
}

TEST(SafetensorsDamage, TheOffsetInAMessagePointsAtTheDamage) {
  const TemporaryDirectory directory;
  const std::size_t second = kGood.rfind("\"b\"");
  const std::string header =
      fmt::format("{}\"a\"{}", kGood.substr(0, second), kGood.substr(second + 3));
  // 8 bytes of length, then the position just after the second key.
  EXPECT_THAT(refusal_of(directory, raw_file(header, std::string(12, 'x'))),
              HasSubstr(fmt::format("at offset {}: duplicate key 'a'", 8 + second + 3)));
}

TEST(SafetensorsDamage, FilesTooShortForTheirLengthAreRefused) {
  const TemporaryDirectory directory;
  for (std::size_t size = 0; size < 8; ++size) {
    EXPECT_THAT(refusal_of(directory, std::string(size, '\0')),
                AllOf(HasSubstr("too short"), HasSubstr(fmt::format("got {}", size))));
  }
  EXPECT_THAT(
      refusal_of(directory, length_prefix(3) + "{}"),
      AllOf(HasSubstr("offset 0"), HasSubstr("header length is 3 bytes, but only 2 bytes follow")));
}

TEST(SafetensorsDamage, AHugeHeaderLengthAllocatesNothing) {
  const TemporaryDirectory directory;
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  for (const std::uint64_t length :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{126'000'000}}) {
    EXPECT_THAT(
        refusal_of(directory, length_prefix(length) + "{}"),
        HasSubstr(fmt::format("header length is {} bytes, but only 2 bytes follow", length)));
  }
  // A header that really is as long, in a file of holes.
  const auto path = directory / "sparse";
  for (const std::uint64_t length : {std::uint64_t{100'000'001}, std::uint64_t{126'000'000}}) {
    write_file_atomically(path, length_prefix(length) + "{}");
    std::filesystem::resize_file(path, 8 + length);
    EXPECT_THAT(refusal(path),
                HasSubstr(fmt::format(
                    "header length is {} bytes, the format allows at most 100000000", length)));
  }
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20 * 1024) << "KiB more at the peak";
}

TEST(SafetensorsDamage, EveryTruncationOfAFileIsRefused) {
  const TemporaryDirectory directory;
  const std::string whole = raw_file(kGood, std::string(12, 'x'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal_of(directory, whole.substr(0, size)), "accepted") << size;
  }
}

TEST(SafetensorsDamage, ARandomByteOfTheHeaderEitherIsHarmlessOrIsRefused) {
  const TemporaryDirectory directory;
  const std::uint64_t seed = 3;
  const RandomStream random(seed, "damage");
  int refused = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    std::string bytes = raw_file(kGood, std::string(12, 'x'));
    bytes[random.below(2 * trial, 8 + kGood.size())] =
        static_cast<char>(random.bits(2 * trial + 1));
    const std::string message = refusal_of(directory, bytes);  // nothing but UserError may come out
    if (message != "accepted") ++refused;
  }
  EXPECT_GT(refused, 200) << "seed " << seed;
}

TEST(SafetensorsDamage, ADirectoryOrAMissingFileIsNamed) {
  const TemporaryDirectory directory;
  EXPECT_THAT(refusal(directory / "nothing"), HasSubstr("nothing'"));
  EXPECT_THAT(refusal(directory.path()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace weft
