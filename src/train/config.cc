#include "train/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include <toml++/toml.h>

#include "base/error.h"
#include "base/file.h"
#include "train/config_schema.h"

namespace weft {
namespace {

// One field being set: what it is, and where its value stands ("demo.toml:3:8: optimizer.lr",
// "--optimizer.lr").
struct Setting {
  const ConfigField& field;
  std::string place;
};

[[noreturn]] void throw_wrong_value(const Setting& setting, std::string_view got) {
  throw_user_error("{}: expected {}, got {}", setting.place, describe_expected(setting.field), got);
}

void check_number(const Setting& setting, double value, std::string_view got) {
  const FieldRange& range = setting.field.range;
  const bool above = range.min_open ? value > range.min : value >= range.min;
  const bool below = range.max_open ? value < range.max : value <= range.max;
  if (!std::isfinite(value) || !above || !below) throw_wrong_value(setting, got);
}

void check_text(const Setting& setting, const std::string& value) {
  const auto& choices = setting.field.choices;
  if (!choices.empty() && std::ranges::find(choices, value) == choices.end()) {
    throw_wrong_value(setting, fmt::format("'{}'", value));
  }
  // Empty has a meaning only where it is the default of a field that may be left out.
  TrainConfig defaults;
  const auto& fallback = *std::get<std::string*>(setting.field.ref(defaults));
  if (value.empty() && (setting.field.required || !fallback.empty())) {
    throw_user_error("{}: expected text, got an empty one", setting.place);
  }
}

void store_integer(const Setting& setting, TrainConfig& config, std::int64_t value) {
  check_number(setting, static_cast<double>(value), fmt::format("{}", value));
  std::visit(
      [value](auto* target) {
        using Target = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, std::int64_t> || std::is_same_v<Target, Tokens> ||
                      std::is_same_v<Target, Bytes>) {
          *target = Target(value);
        }
      },
      setting.field.ref(config));
}

void store_number(const Setting& setting, TrainConfig& config, double value) {
  check_number(setting, value, fmt::format("{}", value));
  *std::get<double*>(setting.field.ref(config)) = value;
}

void store_text(const Setting& setting, TrainConfig& config, std::string value) {
  check_text(setting, value);
  *std::get<std::string*>(setting.field.ref(config)) = std::move(value);
}

enum class Kind { kInteger, kNumber, kBool, kText };

Kind kind_of(const ConfigField& field) {
  TrainConfig any;
  const FieldRef ref = field.ref(any);
  if (std::holds_alternative<double*>(ref)) return Kind::kNumber;
  if (std::holds_alternative<bool*>(ref)) return Kind::kBool;
  if (std::holds_alternative<std::string*>(ref)) return Kind::kText;
  return Kind::kInteger;
}

// What the user wrote, for "got ...".
std::string describe_node(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("the text \"{}\"", text->get());
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point())
    return fmt::format("the number {}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  return "a date or time";
}

void set_from_node(const Setting& setting, TrainConfig& config, const toml::node& node) {
  switch (kind_of(setting.field)) {
    case Kind::kInteger:
      if (const auto* integer = node.as_integer())
        return store_integer(setting, config, integer->get());
      if (const auto* text = node.as_string()) {
        return store_integer(setting, config, parse_count(text->get(), setting.place));
      }
      break;
    case Kind::kNumber:
      if (const auto* number = node.as_floating_point())
        return store_number(setting, config, number->get());
      if (const auto* integer = node.as_integer()) {
        return store_number(setting, config, static_cast<double>(integer->get()));
      }
      break;
    case Kind::kBool:
      if (const auto* flag = node.as_boolean()) {
        *std::get<bool*>(setting.field.ref(config)) = flag->get();
        return;
      }
      break;
    case Kind::kText:
      if (const auto* text = node.as_string()) return store_text(setting, config, text->get());
      break;
  }
  throw_wrong_value(setting, describe_node(node));
}

double parse_number(const Setting& setting, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || rest != end) throw_wrong_value(setting, fmt::format("'{}'", text));
  return value;
}

void set_from_text(const Setting& setting, TrainConfig& config, const std::string& text) {
  switch (kind_of(setting.field)) {
    case Kind::kInteger:
      return store_integer(setting, config, parse_count(text, setting.place));
    case Kind::kNumber:
      return store_number(setting, config, parse_number(setting, text));
    case Kind::kText:
      return store_text(setting, config, text);
    case Kind::kBool:
      break;
  }
  if (text != "true" && text != "false") throw_wrong_value(setting, fmt::format("'{}'", text));
  *std::get<bool*>(setting.field.ref(config)) = text == "true";
}

using GivenFields = std::set<const ConfigField*>;

std::string place_of(std::string_view source, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column);
}

void read_section(std::string_view source, std::string_view section, const toml::table& table,
                  TrainConfig& config, GivenFields& given) {
  for (const auto& [key, node] : table) {
    const std::string place = place_of(source, key.source());
    const ConfigField* field = find_config_field(section, key.str());
    WEFT_USER_CHECK(field != nullptr, "{}: {}", place, describe_unknown_key(section, key.str()));
    set_from_node({.field = *field, .place = fmt::format("{}: {}", place, field->key())}, config,
                  node);
    given.insert(field);
  }
}

void read_toml(std::string_view text, std::string_view source, TrainConfig& config,
               GivenFields& given) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw_user_error("{}: not valid TOML: {}", place_of(source, error.source()),
                     error.description());
  }
  const auto sections = config_sections();
  for (const auto& [key, node] : root) {
    const std::string place = place_of(source, key.source());
    const bool known = std::ranges::find(sections, key.str()) != sections.end();
    if (const auto* table = node.as_table()) {
      WEFT_USER_CHECK(known, "{}: {}", place, describe_unknown_section(key.str()));
      read_section(source, key.str(), *table, config, given);
    } else {
      WEFT_USER_CHECK(!known, "{}: [{}] is a section: expected a table of its keys, got {}", place,
                      key.str(), describe_node(node));
      throw_user_error("{}: {}", place, describe_unknown_key("", key.str()));
    }
  }
}

// A text from the command line may hold any bytes; the effective configuration is stored as TOML,
// which is UTF-8.
void check_writable(const Override& entry, const ConfigField& field, const TrainConfig& config) {
  try {
    (void)toml::parse(fmt::format("{} = {}", field.name, format_field(field, config)));
  } catch (const toml::parse_error& error) {
    throw_user_error("--{}: expected text in UTF-8: {}", entry.key, error.description());
  }
}

void apply_override(const Override& entry, TrainConfig& config, GivenFields& given) {
  const auto dot = entry.key.find('.');
  const bool dotted = dot != std::string::npos;
  const std::string section = dotted ? entry.key.substr(0, dot) : "";
  const std::string name = dotted ? entry.key.substr(dot + 1) : entry.key;
  const auto sections = config_sections();
  WEFT_USER_CHECK(!dotted || std::ranges::find(sections, section) != sections.end(), "--{}: {}",
                  entry.key, describe_unknown_section(section));
  const ConfigField* field = find_config_field(section, name);
  WEFT_USER_CHECK(field != nullptr, "--{}: {}", entry.key, describe_unknown_key(section, name));
  set_from_text({.field = *field, .place = fmt::format("--{}", entry.key)}, config, entry.value);
  check_writable(entry, *field, config);
  given.insert(field);
}

void check_required(std::string_view source, const GivenFields& given) {
  for (const ConfigField& field : config_fields()) {
    WEFT_USER_CHECK(!field.required || given.contains(&field),
                    "{}: {} is missing ({}: {}) and has no default; set '{}' in [{}] or give --{}",
                    source, field.key(), field.help, describe_expected(field), field.name,
                    field.section, field.key());
  }
}

}  // namespace

std::chrono::nanoseconds wait_limit(const CommConfig& config) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(config.wait_limit_s * 1e9));
}

std::vector<Override> parse_overrides(std::span<const std::string> arguments) {
  std::vector<Override> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    WEFT_USER_CHECK(argument.starts_with("--") && argument.size() > 2,
                    "unexpected argument '{}'; settings are written --section.key value", argument);
    const auto equals = argument.find('=');
    if (equals != std::string::npos) {
      overrides.push_back(
          {.key = argument.substr(2, equals - 2), .value = argument.substr(equals + 1)});
      continue;
    }
    const bool has_value = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    WEFT_USER_CHECK(has_value, "{} needs a value: {} value, or {}=value", argument, argument,
                    argument);
    overrides.push_back({.key = argument.substr(2), .value = arguments[++i]});
  }
  return overrides;
}

TrainConfig parse_train_config(std::string_view toml, std::string_view source,
                               std::span<const Override> overrides) {
  TrainConfig config;
  GivenFields given;
  read_toml(toml, source, config, given);
  for (const Override& entry : overrides) apply_override(entry, config, given);
  check_required(source, given);
  check_train_config(config);
  return config;
}

TrainConfig load_train_config(const std::filesystem::path& path,
                              std::span<const Override> overrides) {
  if (path.empty()) return parse_train_config("", "command line", overrides);
  return parse_train_config(read_text_file(path), path.string(), overrides);
}

void check_train_config(const TrainConfig& config) {
  const ModelConfig& model = config.model;
  WEFT_USER_CHECK(model.num_kv_heads >= 1 && model.num_heads % model.num_kv_heads == 0,
                  "model.num_kv_heads: expected a divisor of model.num_heads = {}, got {}",
                  model.num_heads, model.num_kv_heads);
  WEFT_USER_CHECK(model.head_dim % 2 == 0,
                  "model.head_dim: expected an even number (rotary pairs), got {}", model.head_dim);
  WEFT_USER_CHECK(config.optimizer.min_lr <= config.optimizer.lr,
                  "optimizer.min_lr: expected at most optimizer.lr = {}, got {}",
                  config.optimizer.lr, config.optimizer.min_lr);
  WEFT_USER_CHECK(config.data.max_context <= config.data.global_batch_tokens,
                  "data.max_context: expected at most data.global_batch_tokens = {} (a step takes "
                  "whole sequences), "
                  "got {}",
                  config.data.global_batch_tokens, config.data.max_context);
}

std::string to_toml(const TrainConfig& config) {
  std::string text;
  std::string_view section;
  for (const ConfigField& field : config_fields()) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += fmt::format("{} = {}\n", field.name, format_field(field, config));
  }
  return text;
}

std::vector<ConfigDifference> diff(const TrainConfig& left, const TrainConfig& right) {
  std::vector<ConfigDifference> differences;
  for (const ConfigField& field : config_fields()) {
    ConfigDifference entry = {field.key(), format_field(field, left), format_field(field, right)};
    if (entry.left != entry.right) differences.push_back(std::move(entry));
  }
  return differences;
}

std::string train_config_help() {
  std::string text;
  std::string_view section;
  const TrainConfig defaults;
  for (const ConfigField& field : config_fields()) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    const std::string fallback =
        field.required ? "required" : fmt::format("default {}", format_field(field, defaults));
    text += fmt::format("  --{:<28} {}: {}; {}\n", field.key(), field.help,
                        describe_expected(field), fallback);
  }
  return text;
}

}  // namespace weft
