#include "base/json_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace weft {

nlohmann::ordered_json read_json_object(const std::filesystem::path& path, std::string_view kind) {
  using Event = nlohmann::ordered_json::parse_event_t;
  const std::string content = read_text_file(path);
  nlohmann::ordered_json json;
  std::set<std::string> keys;
  try {
    json = nlohmann::ordered_json::parse(
        content, [&](int depth, Event event, const nlohmann::ordered_json& parsed) {
          WEFT_USER_CHECK(depth != 1 || event != Event::key || keys.insert(parsed).second,
                          "{} '{}': key \"{}\" is there twice", kind, path.string(),
                          parsed.get<std::string>());
          return true;
        });
  } catch (const nlohmann::json::exception& error) {
    throw_user_error("{} '{}': not JSON: {}", kind, path.string(), error.what());
  }
  WEFT_USER_CHECK(json.is_object(), "{} '{}': expected a JSON object", kind, path.string());
  return json;
}

JsonFields::JsonFields(const nlohmann::ordered_json& object, std::string where)
    : object_(object), where_(std::move(where)) {}

void JsonFields::check_schema(std::string_view schema) const {
  check_schema(std::span(&schema, 1));
}

std::size_t JsonFields::check_schema(std::span<const std::string_view> versions) const {
  const std::string known = fmt::format("\"{}\"", fmt::join(versions, "\" or \""));
  WEFT_USER_CHECK(has("schema") && at("schema").is_string(),
                  "{}: no \"schema\"; expected \"schema\": {}", where_, known);
  const auto found = at("schema").get<std::string>();
  const auto version = std::find(versions.begin(), versions.end(), found);
  if (version != versions.end()) return static_cast<std::size_t>(version - versions.begin());
  const std::string_view family = versions[0].substr(0, versions[0].rfind(".v") + 2);
  WEFT_USER_CHECK(
      !found.starts_with(family),
      "{}: schema \"{}\" is another version than {}, which this program reads; write the file "
      "again with this version, or use a newer program",
      where_, found, known);
  throw_user_error("{}: schema is \"{}\", expected {}", where_, found, known);
}

void JsonFields::check_keys(std::span<const std::string> known,
                            std::span<const std::string> required) const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto nearest = nearest_name(key, known);
    throw_user_error("{}: unknown key \"{}\"{}", where_, key,
                     nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "");
  }
  for (const std::string& key : required)
    WEFT_USER_CHECK(has(key), "{}: key \"{}\" is missing", where_, key);
}

bool JsonFields::has(std::string_view key) const { return object_.contains(key); }

std::string JsonFields::text(std::string_view key) const {
  WEFT_USER_CHECK(at(key).is_string(), "{}: \"{}\" must be a string", where_, key);
  return at(key).get<std::string>();
}

bool JsonFields::flag(std::string_view key) const {
  WEFT_USER_CHECK(at(key).is_boolean(), "{}: \"{}\" must be true or false", where_, key);
  return at(key).get<bool>();
}

std::int64_t JsonFields::count(std::string_view key, std::int64_t least, std::int64_t most) const {
  const nlohmann::ordered_json& value = at(key);
  // As a double first: what does not fit in 64 bits must not wrap.
  const bool is_in_range = value.is_number_integer() &&
                           value.get<double>() >= static_cast<double>(least) &&
                           value.get<double>() <= static_cast<double>(most);
  WEFT_USER_CHECK(is_in_range, "{}: \"{}\" is {}, expected a whole number from {} to {}", where_,
                  key, value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), least,
                  most);
  return value.get<std::int64_t>();
}

double JsonFields::number(std::string_view key) const {
  WEFT_USER_CHECK(at(key).is_number(), "{}: \"{}\" must be a number", where_, key);
  const double value = at(key).get<double>();
  WEFT_USER_CHECK(std::isfinite(value) && value >= 0,
                  "{}: \"{}\" is {}, expected a finite number, 0 or more", where_, key, value);
  return value;
}

const nlohmann::ordered_json& JsonFields::at(std::string_view key) const {
  const auto found = object_.find(key);
  WEFT_USER_CHECK(found != object_.end(), "{}: key \"{}\" is missing", where_, key);
  return *found;
}

}  // namespace weft
