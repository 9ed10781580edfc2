#include "memory/disk_tier.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "memory/counting_allocator.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DiskTierTest : public ::testing::Test {
 protected:
  DiskTierTest() {
    install_counting_allocator();
    std::string name = fs::path(::testing::TempDir()) / "weft-disk-tier-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    struct statfs info{};
    ::statfs(folder_.c_str(), &info);
    on_disk_ = info.f_type != TMPFS_MAGIC;
  }
  ~DiskTierTest() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (!on_disk_) GTEST_SKIP() << folder_ << " lies in memory; set TMPDIR to a folder on a disk";
  }
  bool folder_is_empty() const { return fs::is_empty(folder_); }

  fs::path folder_;
  bool on_disk_ = false;
};

at::Tensor random_bytes(std::int64_t count, std::int64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
  return at::randint(256, {count}, generator, at::kByte);
}

// Exit code of a child process that runs `body`; -signal when one ended it.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::string message_of(const OffloadTransfer& transfer) {
  try {
    transfer.get();
  } catch (const IoError& error) {
    return error.what();
  }
  return {};
}

TEST_F(DiskTierTest, BlocksOfAnySizeAndAlignmentComeBack) {
  for (const bool direct : {true, false}) {
    DiskTier tier(folder_, direct);
    std::vector<OffloadBlock> blocks;
    std::vector<at::Tensor> tensors;
    std::int64_t seed = 0;
    for (const std::int64_t bytes :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{4095}, std::int64_t{4096},
          std::int64_t{4097}, std::int64_t{(1 << 20) - 1}, std::int64_t{1 << 20},
          std::int64_t{(3 << 20) + 5}}) {
      for (const std::int64_t shift : {0, 1, 64}) {
        tensors.push_back(random_bytes(bytes + shift, ++seed).narrow(0, shift, bytes));
        blocks.push_back(tier.reserve(bytes));
        tier.write(blocks.back(), tensors.back()).get();
      }
    }
    for (std::size_t i = blocks.size(); i-- > 0;) {
      const at::Tensor back =
          at::empty({blocks[i].bytes + 64}, at::kByte)
              .narrow(0, static_cast<std::int64_t>(i % 2) * 64, blocks[i].bytes);
      tier.read(blocks[i], back).get();
      EXPECT_TRUE(at::equal(back, tensors[i])) << blocks[i].bytes << " bytes, block " << i;
      tier.release(blocks[i]);
    }
    EXPECT_TRUE(tier.empty());
  }
}

TEST_F(DiskTierTest, WritesThatAreQueuedOwnTheirTensorsUntilTheyAreDone) {
  AllocationCounter counter;
  const AllocationScope scope(counter);
  DiskTier tier(folder_);
  std::vector<OffloadTransfer> transfers;
  for (int i = 0; i < 8; ++i)
    transfers.push_back(tier.write(tier.reserve(1 << 20), random_bytes(1 << 20, i)));
  for (const OffloadTransfer& transfer : transfers) transfer.get();
  EXPECT_EQ(counter.live(), 0_B);
  EXPECT_EQ(tier.file_bytes(), Bytes(8 << 20));
}

TEST_F(DiskTierTest, NothingThatWasWrittenOrReadIsLeftInThePageCache) {
  for (const bool direct : {true, false}) {
    DiskTier tier(folder_, direct);
    const OffloadBlock block = tier.reserve(8 << 20);
    const at::Tensor tensor = random_bytes(8 << 20, 3);
    tier.write(block, tensor).get();
    EXPECT_EQ(tier.page_cache_bytes(), 0_B) << "direct " << tier.direct();
    tier.read(block, tensor).get();
    EXPECT_EQ(tier.page_cache_bytes(), 0_B) << "direct " << tier.direct();
  }
}

// The count itself, on a file that nobody evicts.
TEST_F(DiskTierTest, PagesInTheCacheAreCounted) {
  const int fd = ::open((folder_ / "cached").c_str(), O_CREAT | O_RDWR, 0600);
  EXPECT_EQ(count_cached_bytes(fd), 0_B);
  const std::vector<std::byte> data(1 << 20);
  EXPECT_EQ(::write(fd, data.data(), data.size()), 1 << 20);
  EXPECT_EQ(count_cached_bytes(fd), Bytes(1 << 20));
  ::close(fd);
}

TEST_F(DiskTierTest, TheFileHasNoNameAndAKilledProcessLeavesNothing) {
  DiskTier tier(folder_);
  tier.write(tier.reserve(100), random_bytes(100, 1)).get();
  EXPECT_TRUE(folder_is_empty());
  const int end = in_child([this] {
    ScratchFile file(folder_);
    const std::vector<std::byte> data(1 << 20);
    file.write(0, data);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(end, -SIGKILL);
  EXPECT_TRUE(folder_is_empty());
}

TEST_F(DiskTierTest, AFolderInMemoryIsRefused) {
  struct statfs info{};
  if (::statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS_MAGIC)
    GTEST_SKIP() << "/dev/shm is no tmpfs here";
  try {
    const DiskTier tier("/dev/shm");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'/dev/shm' lies in memory"));
    EXPECT_THAT(error.what(), HasSubstr("memory.offload_path"));
  }
}

TEST_F(DiskTierTest, AFolderThatIsNotThereIsRefusedByName) {
  try {
    const DiskTier tier(folder_ / "none");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "none").string()));
  }
}

// Without care the system ends the process with SIGXFSZ.
TEST_F(DiskTierTest, AWriteOverTheLimitOfFileSizesIsAnErrorThatNamesTheFolder) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  std::string message;
  {
    DiskTier tier(folder_);
    tier.write(tier.reserve(1 << 19), random_bytes(1 << 19, 1)).get();
    message = message_of(tier.write(tier.reserve(1 << 20), random_bytes(1 << 20, 1)));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, HasSubstr(folder_.string()));
  EXPECT_THAT(message, HasSubstr("cannot write"));
}

TEST_F(DiskTierTest, AFileThatEndsEarlyIsAnErrorThatNamesTheFolder) {
  DiskTier tier(folder_);
  tier.write(tier.reserve(4096), random_bytes(4096, 1)).get();
  const std::string message =
      message_of(tier.read(tier.reserve(8192), at::empty({8192}, at::kByte)));
  EXPECT_THAT(message, HasSubstr(folder_.string()));
  EXPECT_THAT(message, HasSubstr("early"));
}

TEST_F(DiskTierTest, CopiesThatHaveNotBegunFailWhenTheTierEnds) {
  std::vector<OffloadTransfer> transfers;
  const at::Tensor tensor = random_bytes(8 << 20, 1);
  {
    DiskTier tier(folder_);
    for (int i = 0; i < 64; ++i) transfers.push_back(tier.write(tier.reserve(8 << 20), tensor));
  }
  int num_failed = 0;
  for (const OffloadTransfer& transfer : transfers) num_failed += !message_of(transfer).empty();
  EXPECT_GT(num_failed, 0);
}

// Fills a disk of 4 MiB; 0: the error said so. Runs in a child with mounts of its own.
int fill_small_disk(const fs::path& image, const fs::path& mounted) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  const std::string make = fmt::format(
      "truncate -s 4M '{0}' && mkfs.ext4 -q '{0}' 2>/dev/null && mount -o loop '{0}' '{1}' "
      "2>/dev/null",
      image.string(), mounted.string());
  if (std::system(make.c_str()) != 0) return 77;
  int code = 2;
  {
    ScratchFile file(mounted);
    const std::vector<std::byte> data(1 << 20);
    try {
      for (int i = 0; i < 8; ++i) file.write(i * (1LL << 20), data);
    } catch (const IoError& error) {
      const std::string message = error.what();
      const bool named = message.find(mounted.string()) != std::string::npos;
      code = named && message.find("No space left") != std::string::npos ? 0 : 3;
    }
  }
  ::umount(mounted.c_str());
  return code;
}

TEST_F(DiskTierTest, AFullDiskIsAnErrorThatNamesTheFolder) {
  fs::create_directory(folder_ / "mounted");
  const int code =
      in_child([this] { return fill_small_disk(folder_ / "image", folder_ / "mounted"); });
  if (code == 77) GTEST_SKIP() << "no small file system can be mounted here (needs root)";
  EXPECT_EQ(code, 0);
}

TEST(BlockSpace, GivesTheFirstFitAndJoinsNeighbours) {
  BlockSpace space(4096);
  EXPECT_EQ(space.take(1), 0);
  EXPECT_EQ(space.take(4097), 4096);
  EXPECT_EQ(space.take(0), 3 * 4096) << "an empty block has a place of its own";
  EXPECT_EQ(space.end(), 4 * 4096);
  space.give_back(4096, 4097);
  EXPECT_EQ(space.take(4096), 4096);
  EXPECT_EQ(space.take(4096), 2 * 4096);
  for (const std::int64_t place : {0, 4096, 2 * 4096}) space.give_back(place, 4096);
  EXPECT_EQ(space.take(3 * 4096), 0);
  space.give_back(0, 3 * 4096);
  EXPECT_FALSE(space.empty());
  space.give_back(3 * 4096, 0);
  EXPECT_TRUE(space.empty());
  EXPECT_EQ(space.take(5 * 4096), 0) << "the free end grows";
  EXPECT_EQ(space.end(), 5 * 4096);
}

TEST(BlockSpace, NeverGivesOnePlaceTwiceAndEndsEmpty) {
  constexpr std::uint64_t kSeed = 4;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const RandomStream random(kSeed, "block space");
  BlockSpace space(64);
  std::map<std::int64_t, std::int64_t> taken;
  for (std::uint64_t n = 0; n < 5000; ++n) {
    if (taken.empty() || random.below(2 * n, 2) == 0) {
      const auto bytes = static_cast<std::int64_t>(random.below(2 * n + 1, 1000));
      const std::int64_t place = space.take(bytes);
      const auto next = taken.lower_bound(place);
      ASSERT_TRUE(next == taken.end() || place + std::max<std::int64_t>(bytes, 1) <= next->first);
      ASSERT_TRUE(next == taken.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= place);
      taken[place] = bytes;
    } else {
      const auto one = std::next(
          taken.begin(), static_cast<std::ptrdiff_t>(random.below(2 * n + 1, taken.size())));
      space.give_back(one->first, one->second);
      taken.erase(one);
    }
  }
  for (const auto& [place, bytes] : taken) space.give_back(place, bytes);
  EXPECT_TRUE(space.empty());
}

TEST(BlockSpace, APlaceGivenBackTwiceIsABug) {
  BlockSpace space(64);
  space.take(64);
  space.take(64);
  space.give_back(0, 64);
  EXPECT_THROW(space.give_back(0, 64), InternalError);
  EXPECT_THROW(space.give_back(128, 64), InternalError);
}

}  // namespace
}  // namespace weft
