// The profiled machine as a cluster file: one node whose devices are what one rank computes on.
#pragma once

#include <filesystem>

#include "cluster/cluster_description.h"
#include "train/profile.h"

namespace weft {

// Measures the peak and, for up to two seconds, the disk that `folder` is on.
// REQUIRES: a profile of float32.
ClusterDescription machine_cluster(const ProfileOptions& options, const Profile& profile,
                                   const std::filesystem::path& folder);

}  // namespace weft
