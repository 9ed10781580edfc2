// --link-bandwidth and --link-latency: the link of virtual ranks.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "comm/virtual/virtual_world.h"

namespace weft {

struct LinkArguments {
  std::string bandwidth;  // empty: not given
  std::string latency;
  bool given() const { return !bandwidth.empty() || !latency.empty(); }
};

// `whose` begins the help texts.
void add_link_options(CLI::App& command, LinkArguments& arguments, const std::string& whose);

// What is not given is VirtualLink's default. UserError names the option.
VirtualLink parse_link(const LinkArguments& arguments);

}  // namespace weft
