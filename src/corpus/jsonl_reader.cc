#include "corpus/jsonl_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "corpus/utf8_text.h"

namespace weft {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kFirstBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kLargestLine = (std::size_t{1} << 32) - 1;

std::string_view name_of(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::array:
      return "an array";
    case ondemand::json_type::object:
      return "an object";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::string:
      return "a string";
    case ondemand::json_type::boolean:
      return "true or false";
    case ondemand::json_type::null:
      return "null";
  }
  return "something unknown";
}

// The grammar only: a number too large for any machine type is still JSON, and we do not need its
// value.
bool is_json_number(std::string_view text) {
  const auto skip_digits = [&text] {
    const std::size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(size);
    return size > 0;
  };
  const auto skip_one_of = [&text](std::string_view set) {
    const bool is_there = !text.empty() && set.find(text.front()) != set.npos;
    text.remove_prefix(is_there ? 1 : 0);
    return is_there;
  };
  skip_one_of("-");
  if (!skip_one_of("0") && !skip_digits()) return false;
  if (skip_one_of(".") && !skip_digits()) return false;
  if (skip_one_of("eE")) {
    skip_one_of("+-");
    if (!skip_digits()) return false;
  }
  return text.find_first_not_of(" \t\r") == text.npos;
}

std::string describe(const simdjson::simdjson_error& error) {
  switch (error.error()) {
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "its last bracket does not close its first";
    case simdjson::INCORRECT_TYPE:
      return "a word that is none of true, false and null";
    case simdjson::STRING_ERROR:
      return "a string with a wrong escape or half of a surrogate pair";
    case simdjson::DEPTH_ERROR:
      return "more than 1024 nested arrays and objects";
    default:
      break;
  }
  std::string text = error.what();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// Containers get a name before a range-for: value() refers into a temporary that ends before the
// loop does.
//
// Visits everything, since the parser checks only what is visited. Depth is bounded here: the
// parser bounds it in debug builds only.
void check_value(ondemand::value value, int depth = 1) {
  constexpr int kDeepest = 1024;
  if (depth > kDeepest) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
  switch (value.type().value()) {
    case ondemand::json_type::array: {
      ondemand::array array = value.get_array().value();
      for (auto item : array) check_value(item.value(), depth + 1);
      break;
    }
    case ondemand::json_type::object: {
      ondemand::object object = value.get_object().value();
      for (auto field : object) {
        (void)field.unescaped_key().value();
        check_value(field.value().value(), depth + 1);
      }
      break;
    }
    case ondemand::json_type::number:
      if (!is_json_number(value.raw_json_token()))
        throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
      break;
    case ondemand::json_type::string:
      (void)value.get_string().value();
      break;
    case ondemand::json_type::boolean:
      (void)value.get_bool().value();
      break;
    case ondemand::json_type::null:
      if (!value.is_null()) throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
      break;
  }
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == line.npos; }

}  // namespace

struct JsonlReader::Parser {
  ondemand::parser json;

  // Throws BadRecordError through `reader` for what is JSON but no record, simdjson_error for what
  // is no JSON.
  static std::string_view text_of(ondemand::document& document, JsonlReader& reader);
  // Position in the line that the parser has come to, or nullopt when it is behind the end.
  static std::optional<std::size_t> position(ondemand::document& document, std::string_view line);
};

std::optional<std::size_t> JsonlReader::Parser::position(ondemand::document& document,
                                                         std::string_view line) {
  const char* location = nullptr;
  if (document.current_location().get(location) != simdjson::SUCCESS) return std::nullopt;
  return std::min(static_cast<std::size_t>(location - line.data()), line.size());
}

std::string_view JsonlReader::Parser::text_of(ondemand::document& document, JsonlReader& reader) {
  const std::string& key = reader.text_key_;
  if (const auto type = document.type().value(); type != ondemand::json_type::object) {
    reader.throw_bad(BadRecordReason::kWrongType, 0,
                     fmt::format("expected a JSON object, found {}", name_of(type)));
  }
  std::optional<std::string_view> text;
  ondemand::object object = document.get_object().value();
  for (auto field : object) {
    const bool is_text = field.unescaped_key().value() == key;
    ondemand::value value = field.value().value();
    if (!is_text) {
      check_value(value);
      continue;
    }
    const auto here = position(document, reader.line_).value_or(0);
    if (text) {
      reader.throw_bad(BadRecordReason::kDuplicateKey, here,
                       fmt::format("expected the key '{}' once, found it twice", key));
    }
    if (const auto type = value.type().value(); type != ondemand::json_type::string) {
      reader.throw_bad(
          BadRecordReason::kWrongType, here,
          fmt::format("expected a string under the key '{}', found {}", key, name_of(type)));
    }
    text = value.get_string().value();
  }
  if (const auto behind = position(document, reader.line_)) {
    reader.throw_bad(BadRecordReason::kSeveralValues, *behind,
                     "expected one JSON object per line, found more behind it");
  }
  if (!text) {
    reader.throw_bad(
        BadRecordReason::kMissingKey, 0,
        fmt::format("expected the key '{}' (--text-key), found an object without it", key));
  }
  return *text;
}

JsonlReader::JsonlReader(const std::filesystem::path& path, std::string text_key)
    : path_(path.string()),
      text_key_(std::move(text_key)),
      source_(path),
      parser_(std::make_unique<Parser>()),
      buffer_(kFirstBufferBytes) {}

JsonlReader::~JsonlReader() = default;

bool JsonlReader::next_document() {
  text_ = {};
  do {
    if (!next_line()) return false;
  } while (is_blank(line_));
  text_ = text_of_line();
  return true;
}

std::string_view JsonlReader::next_chunk() {
  const std::size_t size = text_.size() <= kChunkBytes
                               ? text_.size()
                               : complete_utf8_prefix(text_.substr(0, kChunkBytes));
  const std::string_view chunk = text_.substr(0, size);
  text_.remove_prefix(size);
  return chunk;
}

bool JsonlReader::next_line() {
  for (;;) {
    const void* found = std::memchr(buffer_.data() + scanned_, '\n', end_ - scanned_);
    scanned_ = end_;
    if (found != nullptr || at_end_) {
      const std::size_t line_end =
          found != nullptr
              ? static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data())
              : end_;
      if (found == nullptr && begin_ == end_) return false;
      line_ = std::string_view(buffer_.data() + begin_, line_end - begin_);
      ++line_number_;
      line_offset_ = next_offset_;
      const std::size_t next = std::min(line_end + 1, end_);
      next_offset_ += static_cast<std::int64_t>(next - begin_);
      begin_ = scanned_ = next;
      return true;
    }
    make_room();
    const std::size_t room = buffer_.size() - simdjson::SIMDJSON_PADDING - end_;
    const RecordPlace here{
        path_, line_number_ + 1, static_cast<std::int64_t>(end_ - begin_) + 1,
        next_offset_ + source_.mark_bytes() + static_cast<std::int64_t>(end_ - begin_)};
    std::size_t count = 0;
    try {
      count = source_.read(std::span(buffer_).subspan(end_, room), here);
    } catch (const BadRecordError&) {  // the file ends here, and its cut line with it
      begin_ = end_ = scanned_ = 0;
      at_end_ = true;
      throw;
    }
    end_ += count;
    at_end_ = count == 0;
  }
}

void JsonlReader::make_room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (end_ + simdjson::SIMDJSON_PADDING >= buffer_.size()) buffer_.resize(2 * buffer_.size());
}

std::string_view JsonlReader::text_of_line() {
  if (const auto flaw = find_text_flaw(line_)) {
    throw_bad(flaw->reason, flaw->position, describe_flaw(*flaw, line_));
  }
  if (line_.size() > kLargestLine) {
    throw_bad(BadRecordReason::kBadJson, 0,
              "expected a line of less than 4 GiB, found a longer one");
  }
  ondemand::parser& json = parser_->json;
  ondemand::document document;
  bool is_open = false;
  try {
    if (line_.size() >
        json.capacity()) {  // in powers of two, so that growing lines do not each reallocate
      const auto error = json.allocate(std::min(std::bit_ceil(line_.size()), kLargestLine));
      if (error != simdjson::SUCCESS) throw simdjson::simdjson_error(error);
    }
    document =
        json.iterate(line_.data(), line_.size(), line_.size() + simdjson::SIMDJSON_PADDING).value();
    is_open = true;
    return Parser::text_of(document, *this);
  } catch (const simdjson::simdjson_error& error) {
    const std::size_t position =
        is_open ? Parser::position(document, line_).value_or(line_.size()) : 0;
    throw_bad(BadRecordReason::kBadJson, position,
              fmt::format("expected one JSON object, found broken JSON: {}", describe(error)));
  }
}

RecordPlace JsonlReader::place_at(std::size_t position_in_line) const {
  const auto position = static_cast<std::int64_t>(position_in_line);
  return {path_, line_number_, position + 1, line_offset_ + source_.mark_bytes() + position};
}

void JsonlReader::throw_bad(BadRecordReason reason, std::size_t position,
                            std::string_view problem) {
  throw BadRecordError(reason, place_at(position), problem);
}

}  // namespace weft
