// Clusters by name: nodes as their makers' data sheets describe them, 2048 of them.
//
// Peaks are quoted; achieved shares are Weft's assumptions, marked as such, and the first thing to
// replace by measurements. configs/cluster/ holds the same values as files (a test keeps them
// equal).
#pragma once

#include <span>
#include <string>

#include "cluster/cluster_description.h"

namespace weft {

std::span<const std::string> cluster_preset_names();

// A preset's name, or the path of a cluster file. UserError with the nearest preset for neither.
ClusterDescription find_cluster(const std::string& name_or_path);

}  // namespace weft
