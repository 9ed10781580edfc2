#include "train/config_schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"

namespace weft {
namespace {

// Candidates of a suggestion, each with the field it stands for. The key's own section comes first:
// the nearest name of equal distance is the first.
struct Candidates {
  std::vector<std::string> names;
  std::vector<const ConfigField*> fields;
};

Candidates candidates_for(std::string_view section) {
  Candidates result;
  for (const bool own : {true, false}) {
    for (const ConfigField& field : config_fields()) {
      if ((field.section == section) != own) continue;
      result.names.emplace_back(field.name);
      result.fields.push_back(&field);
      for (const std::string_view name : field.also_called) {
        result.names.emplace_back(name);
        result.fields.push_back(&field);
      }
    }
  }
  return result;
}

std::string keys_of(std::string_view section) {
  std::vector<std::string_view> names;
  for (const ConfigField& field : config_fields()) {
    if (field.section == section) names.push_back(field.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// The shortest text that reads back as the same number, and as a float.
std::string format_double(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct FormatValue {
  std::string operator()(const std::int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const Tokens* value) const { return fmt::format("{}", *value); }
  std::string operator()(const Bytes* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return format_double(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return quote_toml(*value); }
};

std::string describe_range(const FieldRange& range) {
  const bool low = std::isfinite(range.min);
  const bool high = std::isfinite(range.max);
  std::string text;
  if (low) text = fmt::format(" {} {}", range.min_open ? "above" : "of at least", range.min);
  if (high)
    text +=
        fmt::format("{} {} {}", low ? " and" : "", range.max_open ? "below" : "at most", range.max);
  return text;
}

}  // namespace

std::string ConfigField::key() const { return fmt::format("{}.{}", section, name); }

std::span<const std::string> config_sections() {
  static const std::vector<std::string> kSections = [] {
    std::vector<std::string> sections;
    for (const ConfigField& field : config_fields()) {
      if (sections.empty() || sections.back() != field.section)
        sections.emplace_back(field.section);
    }
    return sections;
  }();
  return kSections;
}

const ConfigField* find_config_field(std::string_view section, std::string_view name) {
  const auto fields = config_fields();
  const auto found = std::ranges::find_if(fields, [&](const ConfigField& field) {
    return field.section == section && field.name == name;
  });
  return found == fields.end() ? nullptr : &*found;
}

std::string describe_unknown_key(std::string_view section, std::string_view name) {
  const std::string where =
      section.empty() ? "outside any section" : fmt::format("in [{}]", section);
  const Candidates candidates = candidates_for(section);
  if (const auto nearest = nearest_name(name, candidates.names)) {
    const auto index = std::ranges::find(candidates.names, *nearest) - candidates.names.begin();
    const ConfigField& field = *candidates.fields[static_cast<std::size_t>(index)];
    return fmt::format("unknown key '{}' {}; did you mean '{}' in [{}]?", name, where, field.name,
                       field.section);
  }
  if (section.empty()) {
    return fmt::format("unknown key '{}' {}; the sections are {}", name, where,
                       fmt::join(config_sections(), ", "));
  }
  return fmt::format("unknown key '{}' {}; its keys are {}", name, where, keys_of(section));
}

std::string describe_unknown_section(std::string_view section) {
  const auto nearest = nearest_name(section, config_sections());
  if (nearest) return fmt::format("unknown section [{}]; did you mean [{}]?", section, *nearest);
  return fmt::format("unknown section [{}]; the sections are {}", section,
                     fmt::join(config_sections(), ", "));
}

std::string describe_expected(const ConfigField& field) {
  TrainConfig any;
  const FieldRef ref = field.ref(any);
  if (!field.choices.empty()) return fmt::format("one of {}", fmt::join(field.choices, ", "));
  if (std::holds_alternative<std::string*>(ref)) return "text";
  if (std::holds_alternative<bool*>(ref)) return "true or false";
  const bool real = std::holds_alternative<double*>(ref);
  const std::string unit = field.unit.empty() ? "" : fmt::format(" ({})", field.unit);
  return (real ? "a number" : "an integer") + describe_range(field.range) + unit;
}

std::string format_field(const ConfigField& field, const TrainConfig& config) {
  // The accessor serves reading and writing; nothing is written here.
  const FieldRef ref = field.ref(const_cast<TrainConfig&>(config));
  return std::visit(FormatValue{}, ref);
}

}  // namespace weft
