#include "base/file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("weft_file_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(FileTest, WrittenTextReadsBackAndLeavesNoTemporary) {
  write_file_atomically(folder_ / "a.txt", "hello");
  write_file_atomically(folder_ / "a.txt", "again");
  EXPECT_EQ(read_text_file(folder_ / "a.txt"), "again");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(FileTest, AMissingFileNamesItsPath) {
  try {
    MappedFile file(folder_ / "absent");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("absent"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos);
  }
}

TEST_F(FileTest, AnEmptyFileMapsToNothing) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
}

TEST_F(FileTest, AnUncommittedDirectoryDisappears) {
  {
    AtomicDirectory directory(folder_ / "corpus");
    write_file_atomically(directory.path() / "part", "x");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  AtomicDirectory directory(folder_ / "corpus");
  write_file_atomically(directory.path() / "part", "x");
  directory.commit();
  EXPECT_EQ(read_text_file(folder_ / "corpus" / "part"), "x");
  EXPECT_THROW(AtomicDirectory(folder_ / "corpus"), UserError);
}

TEST_F(FileTest, HeadersCanBeWrittenLast) {
  FileWriter writer(folder_ / "f");
  writer.write("????");
  writer.write(std::string(3 << 20, 'b'));
  writer.write_at(0, std::as_bytes(std::span("head", 4)));
  EXPECT_EQ(writer.size(), 4u + (3u << 20));
  writer.close();
  const std::string text = read_text_file(folder_ / "f");
  EXPECT_EQ(text.substr(0, 5), "headb");
  EXPECT_EQ(text.size(), 4u + (3u << 20));
}

}  // namespace
}  // namespace weft
