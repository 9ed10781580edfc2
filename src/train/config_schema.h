// The table of TrainConfig's fields: name, place in the struct, unit, range, meaning. Every other
// function about configuration walks this table.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/config.h"

namespace weft {

// Where a field of a particular TrainConfig lives.
using FieldRef = std::variant<std::int64_t*, Tokens*, Bytes*, double*, bool*, std::string*>;

struct FieldRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  // the bound itself is refused
  bool max_open = false;
};

struct ConfigField {
  std::string_view section;
  std::string_view name;
  FieldRef (*ref)(TrainConfig&);
  std::string_view help;
  std::string_view unit = {};
  FieldRange range = {};                           // numbers
  std::vector<std::string_view> choices = {};      // strings; empty: any
  bool required = false;                           // there is no default that could be meant
  std::vector<std::string_view> also_called = {};  // names used elsewhere, for suggestions only

  std::string key() const;  // "section.name"
};

std::span<const ConfigField> config_fields();
std::span<const std::string> config_sections();
const ConfigField* find_config_field(std::string_view section,
                                     std::string_view name);  // nullptr: none

// "unknown key 'x' in [optimizer]; did you mean ...": the sentence for a key that is not in the
// table.
std::string describe_unknown_key(std::string_view section, std::string_view name);
std::string describe_unknown_section(std::string_view section);

// "integer", "number", "true or false", "one of a, b" ..., with the range: what a field expects.
std::string describe_expected(const ConfigField& field);

// The value as TOML writes it.
std::string format_field(const ConfigField& field, const TrainConfig& config);

}  // namespace weft
