#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "model/parameters.h"
#include "tests/unit/checkpoint/temporary_directory.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Equal dtype, shape and bits (NaN included).
void expect_same(const at::Tensor& left, const at::Tensor& right, const std::string& name) {
  EXPECT_EQ(left.scalar_type(), right.scalar_type()) << name;
  ASSERT_EQ(left.sizes(), right.sizes()) << name;
  if (left.nbytes() == 0) return;
  EXPECT_EQ(std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()), 0) << name;
}

at::Tensor floats(std::initializer_list<float> values) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor;
}

TEST(Safetensors, AFileIsWrittenByteForByteAsTheFormatSays) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "a", {{"w", floats({1.0F, -2.0F})}}, {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(read_text_file(directory / "a"), raw_file(padded, data));
  EXPECT_EQ(padded.size() % 8, 0);
}

TEST(Safetensors, AFileBuiltByHandIsRead) {
  const TemporaryDirectory directory;
  const std::string header = R"({ "b": {"shape": [], "data_offsets": [4, 12], "dtype": "I64"},
    "__metadata__": {"k\u00e9y": "v\"alue", "empty": ""}, "a": {"dtype":"U8","shape":[2,2],"data_offsets":[0,4]},
    "none": {"dtype": "F16", "shape": [3, 0], "data_offsets": [4, 4]}}   )";
  const std::string data("\x01\x02\x03\x04\xfe\xff\xff\xff\xff\xff\xff\xff", 12);
  write_file_atomically(directory / "hand", raw_file(header, data));
  const SafetensorsFile file = load_safetensors(directory / "hand");
  ASSERT_EQ(file.tensors.size(), 3);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[0].tensor.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(file.tensors[0].tensor[1][0].item<int>(), 3);
  EXPECT_EQ(file.tensors[1].name, "none");
  EXPECT_EQ(file.tensors[1].tensor.scalar_type(), at::kHalf);
  EXPECT_EQ(file.tensors[1].tensor.sizes(), (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(file.tensors[2].name, "b");
  EXPECT_EQ(file.tensors[2].tensor.dim(), 0);
  EXPECT_EQ(file.tensors[2].tensor.item<std::int64_t>(), -2);
  const std::map<std::string, std::string> metadata = {{"k\u00e9y", "v\"alue"}, {"empty", ""}};
  EXPECT_EQ(file.metadata, metadata);
}

TEST(Safetensors, EveryDtypeAndShapeComesBackBitForBit) {
  const TemporaryDirectory directory;
  const std::uint64_t seed = 11;
  const RandomStream random(seed, "safetensors");
  std::vector<NamedTensor> tensors;
  std::uint64_t index = 0;
  for (const at::ScalarType type : {at::kByte, at::kDouble, at::kChar, at::kFloat, at::kShort,
                                    at::kHalf, at::kLong, at::kBFloat16, at::kInt, at::kBool}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {1}, {3}, {2, 0, 5}, {7, 3}, {1, 1, 1, 1}}) {
      at::Tensor tensor = at::zeros(shape, type);
      auto* bytes = static_cast<std::uint8_t*>(tensor.data_ptr());
      for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(random.bits(index++) & (type == at::kBool ? 1 : 0xff));
      }
      tensors.push_back(
          {fmt::format("{} \"{}\"\n\u00fc", c10::toString(type), tensors.size()), tensor});
    }
  }
  save_safetensors(directory / "all", tensors, {});
  const SafetensorsFile file = load_safetensors(directory / "all");
  EXPECT_TRUE(file.metadata.empty());
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const NamedTensor& saved : tensors) {
    const auto loaded = std::ranges::find(file.tensors, saved.name, &NamedTensor::name);
    ASSERT_NE(loaded, file.tensors.end()) << saved.name << ", seed " << seed;
    expect_same(loaded->tensor, saved.tensor, saved.name);
  }
  // Loading what was loaded, and saving it again, gives the same file.
  save_safetensors(directory / "again", file.tensors, {});
  EXPECT_EQ(read_text_file(directory / "again"), read_text_file(directory / "all"));
}

TEST(Safetensors, WiderElementsComeFirstSoThatEachLiesAligned) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "mixed",
                   {{"bytes", at::ones({3}, at::kByte)},
                    {"f1", at::ones({3}, at::kFloat)},
                    {"f2", at::ones({1}, at::kFloat)},
                    {"d", at::ones({1}, at::kDouble)}},
                   {});
  std::vector<std::string> names;
  for (const NamedTensor& entry : load_safetensors(directory / "mixed").tensors)
    names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("d", "f1", "f2", "bytes"));
}

TEST(Safetensors, NoTensorsAndNothingButEmptyOnesAreFiles) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "none", {}, {});
  EXPECT_EQ(read_text_file(directory / "none"), raw_file("{}      ", ""));
  EXPECT_TRUE(load_safetensors(directory / "none").tensors.empty());
  save_safetensors(directory / "empty", {{"a", at::empty({0})}, {"b", at::empty({0, 4})}}, {});
  EXPECT_EQ(load_safetensors(directory / "empty").tensors.size(), 2);
}

TEST(Safetensors, AHeaderOfExactlyOneHundredThousandBytesIsRead) {
  const TemporaryDirectory directory;
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.append(100'000 - header.size(), ' ');
  write_file_atomically(directory / "long", raw_file(header, "x"));
  EXPECT_EQ(load_safetensors(directory / "long").tensors[0].tensor[0].item<int>(), 'x');
}

TEST(Safetensors, SavingReplacesAnOldFileAndLeavesNothingElseBehind) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "w", {{"old", at::ones({100})}}, {});
  save_safetensors(directory / "w", {{"new", at::ones({1})}}, {});
  EXPECT_EQ(load_safetensors(directory / "w").tensors[0].name, "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(Safetensors, ASaveThatFailsKeepsTheOldFileAndNoPart) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "taken");
  write_file_atomically(directory / "taken/inside", "x");
  EXPECT_THROW(save_safetensors(directory / "taken", {{"w", at::ones({1})}}, {}), UserError);
  EXPECT_THROW(save_safetensors(directory / "missing/w", {{"w", at::ones({1})}}, {}), UserError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
  EXPECT_EQ(read_text_file(directory / "taken/inside"), "x");
}

TEST(Safetensors, WhatCannotBeStoredIsRefused) {
  const TemporaryDirectory directory;
  const at::Tensor w = at::ones({2, 3});
  EXPECT_THROW(save_safetensors(directory / "x", {{"w", w}, {"w", at::ones({1})}}, {}),
               InternalError);
  EXPECT_THROW(save_safetensors(directory / "x", {{"__metadata__", w}}, {}), InternalError);
  EXPECT_THROW(save_safetensors(directory / "x", {{"t", w.t()}}, {}), InternalError);
  EXPECT_THROW(save_safetensors(directory / "x", {{"z", at::ones({1}, at::kComplexFloat)}}, {}),
               InternalError);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Safetensors, TensorsThatShareMemoryAreRefused) {
  const TemporaryDirectory directory;
  const at::Tensor flat = at::ones({8});
  const auto save = [&](const at::Tensor& a, const at::Tensor& b) {
    save_safetensors(directory / "x", {{"embed", a}, {"head", b}}, {});
  };
  EXPECT_THROW(save(flat, flat.view({2, 4})), InternalError);
  EXPECT_THROW(save(flat.narrow(0, 0, 5), flat.narrow(0, 4, 4)), InternalError);
  EXPECT_NO_THROW(save(flat.narrow(0, 4, 4), flat.narrow(0, 0, 4)));
  EXPECT_NO_THROW(save(flat, flat.narrow(0, 3, 0)));
}

// C076: a tied head is one parameter, so the file holds it once and loads into the same set.
TEST(Safetensors, ATiedModelStoresItsEmbeddingOnceAndComesBack) {
  const TemporaryDirectory directory;
  for (const bool tied : {true, false}) {
    const ModelConfig config = {.vocab_size = 11,
                                .hidden_size = 8,
                                .num_layers = 2,
                                .num_heads = 2,
                                .num_kv_heads = 1,
                                .head_dim = 4,
                                .intermediate_size = 12,
                                .rope_theta = 10000,
                                .rms_norm_eps = 1e-5,
                                .tie_word_embeddings = tied};
    ParameterSet parameters(config, at::kFloat);
    parameters.initialize(5);
    std::vector<NamedTensor> tensors;
    for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
      tensors.push_back({parameters.infos()[i].name, parameters.value(i)});
    }
    save_safetensors(directory / "model", tensors, {{"format", "pt"}});
    const SafetensorsFile file = load_safetensors(directory / "model");
    ASSERT_EQ(file.tensors.size(), parameters.infos().size());
    std::int64_t elements = 0;
    int vocabulary_tensors = 0;
    for (const auto& [name, tensor] : file.tensors) {
      expect_same(tensor, parameters.value(parameters.index_of(name)), name);
      elements += tensor.numel();
      if (tensor.size(0) == config.vocab_size) ++vocabulary_tensors;
    }
    EXPECT_EQ(elements, parameters.size());
    EXPECT_EQ(vocabulary_tensors, tied ? 1 : 2);
  }
}

}  // namespace
}  // namespace weft
