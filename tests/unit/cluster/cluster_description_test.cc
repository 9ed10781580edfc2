#include "cluster/cluster_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "cluster/cluster_presets.h"
#include "tests/support/edited_file.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class ClusterFile : public testing::EditedFile {
 protected:
  ClusterFile()
      : EditedFile(
            "cluster", [](const Path& path) { save_cluster(path, find_cluster("h800")); },
            load_cluster) {}
};

TEST_F(ClusterFile, ReadsBackExactlyWhatWasWritten) {
  ClusterDescription cluster = find_cluster("a800");
  cluster.nic_share = 1.0 / 3;
  cluster.num_nodes = 7;
  save_cluster(path_, cluster);
  EXPECT_EQ(load_cluster(path_), cluster);
}

TEST_F(ClusterFile, EveryPresetIsShippedAsAFileAndNamesTheSourceOfEachOfItsValues) {
  for (const std::string& name : cluster_preset_names()) {
    const ClusterDescription cluster = find_cluster(name);
    const auto shipped =
        std::filesystem::path(WEFT_SOURCE_DIR) / "configs/cluster" / (name + ".json");
    EXPECT_EQ(load_cluster(shipped), cluster) << name;
    EXPECT_EQ(find_cluster(shipped.string()), cluster);
    EXPECT_EQ(cluster.sources.size(), 17u) << name << ": one for each value";
  }
}

TEST_F(ClusterFile, DamageIsNamed) {
  EXPECT_THAT(error_after("\"gemm_share\"", "\"gem_share\""),
              HasSubstr("did you mean \"gemm_share\"?"));
  EXPECT_THAT(error_after("\"gemm_share\": 0.7", "\"gemm_share\": 70"),
              HasSubstr("above 0 and at most 1"));
  EXPECT_THAT(error_after("\"num_nodes\": 2048", "\"num_nodes\": 0"),
              HasSubstr("\"num_nodes\" is 0, expected a whole number from 1"));
  EXPECT_THAT(error_after("\"num_nodes\": 2048", "\"num_nodes\": 99999999999999999999"),
              HasSubstr("\"num_nodes\" is"));
  EXPECT_THAT(error_after("\"nic_latency_ns\": 10000.0", "\"nic_latency_ns\": -1"),
              HasSubstr("0 or more"));
  EXPECT_THAT(error_after("weft.cluster.v1", "weft.cluster.v2"), HasSubstr("another version"));
  EXPECT_THAT(error_after("weft.cluster.v1", "weft.cost.v1"),
              HasSubstr("expected \"weft.cluster.v1\""));
  EXPECT_THAT(error_after("\"sources\": {", "\"sources\": {\"memory_byte\": \"x\", "),
              HasSubstr("did you mean \"memory_bytes\"?"));
  EXPECT_THAT(error_after("\"sources\": {", "\"sources\": [{"), HasSubstr("not JSON"));
  EXPECT_THAT(error_after("{", "{\"name\": \"twice\","), HasSubstr("\"name\" is there twice"));
}

TEST_F(ClusterFile, AFileCutOrChangedAnywhereIsReadOrRefusedByName) {
  const std::string whole = text_;
  for (std::size_t at = 0; at + 2 < whole.size(); at += 11) {
    text_ = whole.substr(0, at);
    EXPECT_THAT(error_after("", ""), HasSubstr(path_.string())) << "cut to " << at;
    text_ = whole;
    text_[at] = static_cast<char>(text_[at] ^ (1 << (at % 8)));
    EXPECT_THAT(error_after("", ""), ::testing::AnyOf("no error", HasSubstr(path_.string()))) << at;
  }
}

TEST_F(ClusterFile, RefusesToWriteWhatItWouldNotRead) {
  ClusterDescription cluster = find_cluster("h100");
  cluster.peak_flops_per_second = std::numeric_limits<double>::infinity();
  EXPECT_THROW(save_cluster(path_, cluster), UserError);
}

TEST(ClusterPresets, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    find_cluster("h80");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'h800'?"));
  }
}

TEST(ClusterMesh, DevicesDivideIntoRanksOfTensorAndPipeline) {
  const ClusterDescription cluster = find_cluster("h800");
  EXPECT_EQ(mesh_of_devices(cluster, 1024, 2, 1), (Mesh{512, 2, 1}));
  EXPECT_EQ(mesh_of_devices(cluster, 96, 8, 4), (Mesh{3, 8, 4}));
  EXPECT_THROW(mesh_of_devices(cluster, 1024, 16, 1), UserError) << "leaves the node";
  EXPECT_THROW(mesh_of_devices(cluster, 1024, 3, 1), UserError) << "does not divide a node";
  EXPECT_THROW(mesh_of_devices(cluster, 100, 8, 1), UserError);
  EXPECT_THROW(mesh_of_devices(cluster, 16392, 8, 1), UserError) << "more than there are";
  EXPECT_THROW(mesh_of_devices(cluster, 0, 1, 1), UserError);
  EXPECT_THROW(mesh_of_devices(cluster, 8, 1, std::int64_t{1} << 62), UserError);
}

TEST(ClusterMesh, ThePlannerSeesTheRanksOfAStageOnANode) {
  const ClusterDescription cluster = find_cluster("h800");
  const ClusterSpec spec = cluster_spec(cluster, {.num_ranks = 12, .tensor = 2, .pipeline = 4});
  EXPECT_EQ(spec.num_ranks, 12);
  EXPECT_EQ(spec.ranks_per_node, 4);
  EXPECT_EQ(spec.pipeline_stages, 4);
  EXPECT_EQ(spec.num_nodes(), 3) << "of each stage";
}

TEST(ClusterMesh, DevicesShareTheNicsOfTheirNode) {
  ClusterDescription cluster = find_cluster("a800");  // 4 NICs for 8 devices
  cluster.nic_share = cluster.node_link_share = 0.5;
  const double one = cluster.nic_bytes_per_second * 0.5;
  EXPECT_DOUBLE_EQ(nic_rate(cluster, 1), one);
  EXPECT_DOUBLE_EQ(nic_rate(cluster, 4), one);
  EXPECT_DOUBLE_EQ(nic_rate(cluster, 8), one / 2);
  EXPECT_DOUBLE_EQ(node_link_rate(cluster), cluster.node_link_bytes_per_second * 0.5);
}

}  // namespace
}  // namespace weft
