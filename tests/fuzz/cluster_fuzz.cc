// Cluster files.
#include "cluster/cluster_description.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  const ScratchFolder folder;
  const auto path = folder.write("cluster.json", input);
  const auto cluster = value_or_refusal([&] { return load_cluster(path); });
  if (!cluster) return;
  save_cluster(folder.path() / "again.json", *cluster);
  WEFT_CHECK(load_cluster(folder.path() / "again.json") == *cluster, "read back otherwise");
}

}  // namespace weft::fuzz
