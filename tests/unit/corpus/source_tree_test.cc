#include "corpus/source_tree.h"

#include <sys/stat.h>

#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class SourceTreeTest : public CorpusTest {
 protected:
  std::vector<std::string> list(const std::vector<std::string>& inputs) {
    std::vector<fs::path> paths;
    for (const auto& input : inputs) paths.push_back(folder_ / input);
    InputFiles files(paths);
    std::vector<std::string> names;
    while (const auto path = files.next())
      names.push_back(path->lexically_relative(folder_).string());
    num_unfollowed_links_ = files.num_unfollowed_links();
    return names;
  }
  std::int64_t num_unfollowed_links_ = 0;
};

TEST_F(SourceTreeTest, FilesComeInByteOrderOfTheirNamesWhateverTheOrderOfCreation) {
  for (const std::string name :
       {"t/b.txt", "t/a/z.txt", "t/B.txt", "t/a/y/x.txt", "t/é.txt", "t/a.txt"})
    write(name, "x");
  EXPECT_THAT(list({"t"}),
              ElementsAre("t/B.txt", "t/a/y/x.txt", "t/a/z.txt", "t/a.txt", "t/b.txt", "t/é.txt"));
  EXPECT_THAT(list({"t/b.txt", "t/a"}), ElementsAre("t/b.txt", "t/a/y/x.txt", "t/a/z.txt"));
}

TEST_F(SourceTreeTest, HiddenEntriesAndSpecialFilesAreLeftOut) {
  for (const std::string name : {"t/a.txt", "t/.hidden", "t/.git/config", "t/sub/.x/y"})
    write(name, "x");
  ASSERT_EQ(::mkfifo((folder_ / "t/pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ / "t/empty");
  EXPECT_THAT(list({"t"}), ElementsAre("t/a.txt"));
}

TEST_F(SourceTreeTest, LinksToFilesAreReadAndLinksToDirectoriesCannotLoop) {
  write("t/d/a.txt", "x");
  write("blob", "y");
  fs::create_symlink(folder_ / "blob", folder_ / "t/link.txt");
  fs::create_symlink(folder_ / "absent", folder_ / "t/dangling");
  fs::create_directory_symlink(folder_ / "t", folder_ / "t/d/loop");
  fs::create_directory_symlink(folder_ / "t", folder_ / "way_in");
  EXPECT_THAT(list({"t"}), ElementsAre("t/d/a.txt", "t/link.txt"));
  EXPECT_EQ(num_unfollowed_links_, 1);
  EXPECT_THAT(list({"way_in"}), ElementsAre("way_in/d/a.txt", "way_in/link.txt"));
}

TEST_F(SourceTreeTest, InputsThatAreNoFilesAreRefusedBeforeAnythingIsRead) {
  write("a.txt", "x");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(user_error_of([&] { list({"a.txt", "absent"}); }),
              HasSubstr("absent': No such file"));
  EXPECT_THAT(user_error_of([&] { list({"pipe"}); }),
              HasSubstr("neither a regular file nor a directory"));
}

TEST_F(SourceTreeTest, InputsAreMeasured) {
  write("t/a.txt", "12345");
  write("t/b/c.txt", "123");
  const InputSize size = measure_inputs({folder_ / "t", folder_ / "t/a.txt"});
  EXPECT_EQ(size.num_files, 3);
  EXPECT_EQ(size.num_bytes, 13);
}

TEST_F(SourceTreeTest, AnOutputInsideAnInputIsRefused) {
  write("t/a.txt", "x");
  EXPECT_THAT(user_error_of([&] { build("t/sub/out", {"t"}); }), HasSubstr("inside the input"));
  EXPECT_THAT(user_error_of([&] { build("t/../t/out", {"t"}); }), HasSubstr("inside the input"));
  build("t_out", {"t"});
}

}  // namespace
}  // namespace weft
