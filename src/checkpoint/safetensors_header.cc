#include "checkpoint/safetensors_header.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

struct DtypeRow {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<DtypeRow, 15> kDtypes = {{
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
    {"F32", 4},
    {"I32", 4},
    {"U32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I16", 2},
    {"U16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
}};

// Walks the header's text and tells the parser's position, which nlohmann's SAX events do not
// carry.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, std::uint64_t* consumed) : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_ = nullptr;
  std::uint64_t* consumed_ = nullptr;
};

// The header is {name: {"dtype": text, "shape": [..], "data_offsets": [.., ..]}, "__metadata__":
// {text: text}}. Each event is legal in few places; any other is refused where it stands.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  std::uint64_t* consumed() { return &consumed_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("true or false"); }
  bool number_integer(std::int64_t value) { return refuse(fmt::format("the number {}", value)); }
  bool number_float(double, const std::string& text) {
    return refuse(fmt::format("the number {}", text));
  }
  bool binary(nlohmann::json::binary_t&) { return refuse("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets)
      refuse(fmt::format("the number {}", value));
    numbers_.push_back(value);
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace(key_, value);
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      entry_.dtype = value;
    } else {
      refuse(fmt::format("the text '{}'", value));
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::kBefore) {
      place_ = Place::kRoot;
    } else if (place_ == Place::kRoot) {
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
      entry_ = SafetensorsEntry();
      entry_.name = key_;
      inner_keys_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& name) {
    auto& keys = place_ == Place::kRoot ? root_keys_ : inner_keys_;
    WEFT_USER_CHECK(keys.insert(name).second, "{}: duplicate key '{}'", where(), name);
    if (place_ == Place::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      throw_user_error("{}: unknown key '{}' of tensor '{}'; expected dtype, shape or data_offsets",
                       where(), name, entry_.name);
    }
    key_ = name;
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      for (const char* name : {"dtype", "shape", "data_offsets"}) {
        WEFT_USER_CHECK(inner_keys_.contains(name), "{}: tensor '{}' has no {}", where(),
                        entry_.name, name);
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kRoot ? Place::kAfter : Place::kRoot;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kTensor || key_ == "dtype") refuse("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    numbers_.clear();
    return true;
  }

  bool end_array() {
    if (place_ == Place::kShape) {
      for (const std::uint64_t extent : numbers_) {
        WEFT_USER_CHECK(extent <= std::numeric_limits<std::int64_t>::max(),
                        "{}: tensor '{}' has an extent of {}", where(), entry_.name, extent);
        entry_.shape.push_back(static_cast<std::int64_t>(extent));
      }
    } else {
      WEFT_USER_CHECK(numbers_.size() == 2,
                      "{}: data_offsets of tensor '{}': expected 2 numbers, got {}", where(),
                      entry_.name, numbers_.size());
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    throw_user_error("{}: the header is not valid JSON: {}", where(), error.what());
  }

 private:
  enum class Place { kBefore, kRoot, kMetadata, kTensor, kShape, kOffsets, kAfter };

  std::string where() const {
    return fmt::format("'{}' at offset {}", file_, kSafetensorsPrefixBytes + consumed_);
  }

  bool refuse(std::string_view got) const {
    switch (place_) {
      case Place::kMetadata:
        throw_user_error("{}: metadata '{}': expected a text, got {}", where(), key_, got);
      case Place::kShape:
      case Place::kOffsets:
        throw_user_error("{}: {} of tensor '{}': expected whole numbers of at least 0, got {}",
                         where(), key_, entry_.name, got);
      case Place::kTensor:
        throw_user_error("{}: {} of tensor '{}': expected {}, got {}", where(), key_, entry_.name,
                         key_ == "dtype" ? "a text" : "an array of numbers", got);
      case Place::kRoot:
        throw_user_error("{}: '{}': expected an object, got {}", where(), key_, got);
      case Place::kBefore:
      case Place::kAfter:
        break;
    }
    throw_user_error("{}: expected an object, got {}", where(), got);
  }

  std::string_view file_;
  std::uint64_t consumed_ = 0;
  Place place_ = Place::kBefore;
  std::string key_;  // the last one
  std::set<std::string> root_keys_;
  std::set<std::string> inner_keys_;
  std::vector<std::uint64_t> numbers_;
  SafetensorsEntry entry_;
  SafetensorsHeader header_;
};

// Bytes of a tensor; nullopt when its extents (an extent of 0 counted as 1, as strides do) overflow
// 63 bits.
std::optional<std::uint64_t> tensor_bytes(const SafetensorsEntry& entry,
                                          std::uint64_t element_bytes) {
  std::int64_t span = static_cast<std::int64_t>(element_bytes);
  bool empty = false;
  for (const std::int64_t extent : entry.shape) {
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(span, std::max<std::int64_t>(extent, 1), &span)) return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(span);
}

// Checks one entry by itself. `base`: file offset of the data.
void check_entry(const SafetensorsEntry& entry, std::uint64_t base, std::uint64_t data_bytes,
                 std::string_view file) {
  const std::string where = fmt::format("'{}' tensor '{}'", file, entry.name);
  WEFT_USER_CHECK(entry.begin <= entry.end, "{}: data_offsets [{}, {}] run backwards", where,
                  entry.begin, entry.end);
  const auto bytes = tensor_bytes(entry, safetensors_element_bytes(entry.dtype, where));
  WEFT_USER_CHECK(bytes.has_value(), "{}: shape [{}] overflows 63 bits", where,
                  fmt::join(entry.shape, ", "));
  WEFT_USER_CHECK(*bytes == entry.end - entry.begin,
                  "{}: {} with shape [{}] takes {} bytes, but its data_offsets [{}, {}] span {}",
                  where, entry.dtype, fmt::join(entry.shape, ", "), *bytes, entry.begin, entry.end,
                  entry.end - entry.begin);
  WEFT_USER_CHECK(entry.end <= data_bytes,
                  "{}: truncated file: its data end {} bytes after the data's start at offset {}, "
                  "but only {} bytes "
                  "are there",
                  where, entry.end, base, data_bytes);
}

// Entries sorted by offset must cover [0, data_bytes) exactly.
void check_cover(const std::vector<SafetensorsEntry>& entries, std::uint64_t base,
                 std::uint64_t data_bytes, std::string_view file) {
  std::uint64_t covered = 0;
  std::string before = "the header";
  for (const SafetensorsEntry& entry : entries) {
    WEFT_USER_CHECK(entry.begin >= covered,
                    "'{}' at offset {}: tensor '{}' overlaps {} by {} bytes", file,
                    base + entry.begin, entry.name, before, covered - entry.begin);
    WEFT_USER_CHECK(entry.begin == covered,
                    "'{}' at offset {}: a hole of {} bytes between {} and '{}'", file,
                    base + covered, entry.begin - covered, before, entry.name);
    covered = entry.end;
    before = fmt::format("'{}'", entry.name);
  }
  WEFT_USER_CHECK(covered == data_bytes,
                  "'{}' at offset {}: {} unexpected bytes after the last tensor", file,
                  base + covered, data_bytes - covered);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           std::string_view file) {
  WEFT_USER_CHECK(
      text.starts_with('{'), "'{}' at offset {}: the header must start with '{{', got {}", file,
      kSafetensorsPrefixBytes,
      text.empty() ? "nothing" : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[0])));
  // The JSON lexer takes a zero byte for the end of its input.
  const std::size_t zero = text.find('\0');
  WEFT_USER_CHECK(zero == std::string_view::npos,
                  "'{}' at offset {}: the header is not valid JSON: a zero byte", file,
                  kSafetensorsPrefixBytes + zero);
  HeaderReader reader(file);
  const CountingIterator begin(text.data(), reader.consumed());
  const CountingIterator end(text.data() + text.size(), reader.consumed());
  nlohmann::json::sax_parse(begin, end, &reader);
  SafetensorsHeader header = reader.take();
  const std::uint64_t base = kSafetensorsPrefixBytes + text.size();
  for (const SafetensorsEntry& entry : header.entries) check_entry(entry, base, data_bytes, file);
  // Empty tensors first among equal starts: they end where the next one begins.
  std::ranges::stable_sort(header.entries, {},
                           [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  check_cover(header.entries, base, data_bytes, file);
  return header;
}

SafetensorsLayout read_safetensors_layout(std::span<const std::byte> bytes, std::string_view file) {
  WEFT_USER_CHECK(bytes.size() >= kSafetensorsPrefixBytes,
                  "'{}': too short for a safetensors file: expected at least {} bytes, got {}",
                  file, kSafetensorsPrefixBytes, bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::uint64_t left = bytes.size() - kSafetensorsPrefixBytes;
  WEFT_USER_CHECK(length <= left,
                  "'{}' at offset 0: the header length is {} bytes, but only {} bytes follow it",
                  file, length, left);
  WEFT_USER_CHECK(length <= kMaxSafetensorsHeaderBytes,
                  "'{}' at offset 0: the header length is {} bytes, the format allows at most {}",
                  file, length, kMaxSafetensorsHeaderBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kSafetensorsPrefixBytes,
                              length);
  return {.header = parse_safetensors_header(text, left - length, file),
          .data_begin = kSafetensorsPrefixBytes + length};
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::vector<std::string> parts;
  if (!header.metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : header.metadata) {
      pairs.push_back(fmt::format("{}:{}", quoted(key), quoted(value)));
    }
    parts.push_back(fmt::format("\"__metadata__\":{{{}}}", fmt::join(pairs, ",")));
  }
  for (const SafetensorsEntry& entry : header.entries) {
    parts.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                quoted(entry.name), entry.dtype, fmt::join(entry.shape, ","),
                                entry.begin, entry.end));
  }
  std::string text = fmt::format("{{{}}}", fmt::join(parts, ","));
  text.append(
      (kSafetensorsPrefixBytes - text.size() % kSafetensorsPrefixBytes) % kSafetensorsPrefixBytes,
      ' ');
  return text;
}

std::uint64_t safetensors_element_bytes(std::string_view dtype, std::string_view where) {
  const auto* row = std::ranges::find(kDtypes, dtype, &DtypeRow::name);
  WEFT_USER_CHECK(row != kDtypes.end(), "{}: unknown dtype '{}'", where, dtype);
  return row->bytes;
}

}  // namespace weft
