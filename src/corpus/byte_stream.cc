#include "corpus/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace weft {
namespace {

constexpr std::size_t kInputBytes = std::size_t{256} << 10;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(std::filesystem::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    WEFT_USER_CHECK(fd_ >= 0, "cannot open '{}': {}", path_.string(), std::strerror(errno));
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~PlainStream() override { ::close(fd_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  std::size_t read(std::span<char> buffer) override {
    for (;;) {
      const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      WEFT_USER_CHECK(count >= 0, "cannot read '{}': {}", path_.string(), std::strerror(errno));
      input_bytes_ += count;
      return static_cast<std::size_t>(count);
    }
  }
  std::int64_t input_bytes() const override { return input_bytes_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t input_bytes_ = 0;
};

// The part that both decompressors share: a window of compressed bytes that is refilled when it is
// used up.
class CompressedInput {
 public:
  explicit CompressedInput(const std::filesystem::path& path) : file_(path), buffer_(kInputBytes) {}

  // False at the end of the file.
  bool refill_if_empty() {
    if (begin_ < end_) return true;
    begin_ = 0;
    end_ = file_.read(buffer_);
    return end_ > 0;
  }
  std::span<char> window() { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void consume(std::size_t count) { begin_ += count; }
  std::int64_t position() const {
    return file_.input_bytes() - static_cast<std::int64_t>(end_ - begin_);
  }

 private:
  PlainStream file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

[[noreturn]] void throw_damaged(std::string_view problem, const CompressedInput& input) {
  throw DamagedStream(fmt::format("{} (at compressed byte {})", problem, input.position()));
}

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : input_(path) {
    constexpr int kGzipFormat = 16;
    WEFT_CHECK(::inflateInit2(&state_, MAX_WBITS + kGzipFormat) == Z_OK, "zlib cannot start");
  }
  ~GzipStream() override { ::inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled == 0 && !at_end_) {
      if (between_members_ && !begin_member()) break;
      if (!input_.refill_if_empty()) throw_damaged("the gzip data ends too early", input_);
      filled = inflate_into(buffer);
    }
    return filled;
  }
  std::int64_t input_bytes() const override { return input_.position(); }

 private:
  // After a member: another one, padding with zeros as tape writers leave it, or the end.
  bool begin_member() {
    while (input_.refill_if_empty()) {
      const char next = input_.window().front();
      if (next != '\0') {
        if (next != '\x1f') throw_damaged("bytes behind the end of the gzip data", input_);
        ::inflateReset(&state_);
        between_members_ = false;
        return true;
      }
      input_.consume(1);
    }
    at_end_ = true;
    return false;
  }

  std::size_t inflate_into(std::span<char> buffer) {
    const std::span<char> window = input_.window();
    state_.next_in = reinterpret_cast<Bytef*>(window.data());
    state_.avail_in = static_cast<uInt>(window.size());
    const auto room = static_cast<uInt>(std::min(buffer.size(), std::size_t{1} << 30));
    state_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    state_.avail_out = room;
    const int status = ::inflate(&state_, Z_NO_FLUSH);
    input_.consume(window.size() - state_.avail_in);
    if (status == Z_STREAM_END) {
      between_members_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR && state_.avail_out == room) {
      // With output, the next call meets the same damage: what is whole is delivered first.
      throw_damaged(fmt::format("the gzip data is damaged: {}",
                                state_.msg != nullptr ? state_.msg : "unknown cause"),
                    input_);
    }
    return room - state_.avail_out;
  }

  CompressedInput input_;
  z_stream state_{};
  bool between_members_ = false;
  bool at_end_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : input_(path), state_(::ZSTD_createDCtx()) {
    WEFT_CHECK(state_ != nullptr, "zstd cannot start");
    // Public dumps are often written with --long=31; memory follows the frame's own window, not
    // this limit.
    constexpr int kLargestWindowLog = 31;
    ::ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, kLargestWindowLog);
  }
  ~ZstdStream() override { ::ZSTD_freeDCtx(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      if (!input_.refill_if_empty()) {
        if (!inside_frame_) return 0;
        // The decoder may still hold output that did not fit before.
        decode(out);
        if (out.pos == 0 && inside_frame_) throw_damaged("the zstd data ends too early", input_);
        continue;
      }
      decode(out);
    }
    return out.pos;
  }
  std::int64_t input_bytes() const override { return input_.position(); }

 private:
  void decode(ZSTD_outBuffer& out) {
    const std::span<char> window = input_.window();
    ZSTD_inBuffer in{window.data(), window.size(), 0};
    const std::size_t status = ::ZSTD_decompressStream(state_, &out, &in);
    input_.consume(in.pos);
    if (::ZSTD_isError(status) != 0) {
      throw_damaged(fmt::format("the zstd data is damaged: {}", ::ZSTD_getErrorName(status)),
                    input_);
    }
    inside_frame_ = status != 0;
  }

  CompressedInput input_;
  ZSTD_DCtx* state_;
  bool inside_frame_ = true;  // an empty file is no zstd file
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipStream>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdStream>(path);
  return std::make_unique<PlainStream>(path);
}

std::filesystem::path uncompressed_name(const std::filesystem::path& path) {
  const auto extension = path.extension();
  if (extension != ".gz" && extension != ".zst") return path;
  return path.parent_path() / path.stem();
}

}  // namespace weft
