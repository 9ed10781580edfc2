// A JSON file whose object must hold known keys and nothing else: cost files, cluster files.
//
// Everything that is wrong is a UserError that names the kind of file, its path and the key, with
// the nearest known key for a misspelt one. The file's "schema" is "weft.KIND.vN"; another version
// is refused by name. A key that is there twice is refused, as parsers would keep one in silence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// The file's top-level object. `kind` is what messages call the file, such as "cost file".
nlohmann::ordered_json read_json_object(const std::filesystem::path& path, std::string_view kind);

// Reads the values of one object. REQUIRES: the object outlives it.
class JsonFields {
 public:
  // `where` begins every message, such as "cost file 'a.json'".
  JsonFields(const nlohmann::ordered_json& object, std::string where);

  // "schema" is exactly `schema`, which ends in ".v" and a number.
  void check_schema(std::string_view schema) const;
  // The same of a file with several versions, the oldest first: which of them it is.
  std::size_t check_schema(std::span<const std::string_view> versions) const;
  // Every key of the object is known, and every required one is there.
  void check_keys(std::span<const std::string> known, std::span<const std::string> required) const;

  bool has(std::string_view key) const;
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  // A whole number from `least` to `most`.
  std::int64_t count(std::string_view key, std::int64_t least, std::int64_t most) const;
  double number(std::string_view key) const;  // finite, 0 or more
  const std::string& where() const { return where_; }

 private:
  const nlohmann::ordered_json& at(std::string_view key) const;

  const nlohmann::ordered_json& object_;
  std::string where_;
};

}  // namespace weft
