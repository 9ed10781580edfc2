#include "machine/mpi_install.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "machine/child_process.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

TEST(MpirunVersion, EachFlavourIsKnownByItsWords) {
  struct Case {
    const char* text;
    MpiFlavour flavour;
    const char* version;
  };
  for (const Case& one :
       {Case{"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
             MpiFlavour::kOpenMpi, "4.1.4"},
        Case{"mpirun (OpenRTE) 2.0.2\n", MpiFlavour::kOpenMpi, "2.0.2"},
        Case{"HYDRA build details:\n    Version:       4.0.2\n    Release Date: Thu Apr  7\n",
             MpiFlavour::kMpich, "4.0.2"},
        Case{"Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619\n",
             MpiFlavour::kIntel, "2021.10"},
        Case{"something 1.2 else", MpiFlavour::kUnknown, "1.2"},
        Case{"no number 7", MpiFlavour::kUnknown, ""}, Case{"", MpiFlavour::kUnknown, ""}}) {
    const MpiVersion version = parse_mpirun_version(one.text);
    EXPECT_EQ(version.flavour, one.flavour) << one.text;
    EXPECT_EQ(version.version, one.version) << one.text;
  }
}

TEST(BuildId, IsTakenFromTheVersionLine) {
  EXPECT_EQ(parse_build_id("weft-engine 0.1.0 (build 1a2b3c4d5e6f)\n"), "1a2b3c4d5e6f");
  EXPECT_EQ(parse_build_id("weft-engine 0.1.0"), "");
  EXPECT_EQ(parse_build_id("(build 12"), "");
  EXPECT_EQ(parse_build_id(""), "");
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft_machine_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  void script(const std::string& name, const std::string& body) const {
    std::ofstream(path_ / name) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path_ / name, std::filesystem::perms::owner_all);
  }
  std::filesystem::path path_;
};

TEST_F(Folder, ProgramsAnswerWithOutputAndExitCode) {
  script("talks", "echo out; echo err >&2; exit 3");
  const ProgramAnswer answer = ask_program({(path_ / "talks").string()}, milliseconds(5000));
  EXPECT_EQ(answer.exit_code, 3);
  EXPECT_FALSE(answer.timed_out);
  EXPECT_EQ(answer.output, "out\nerr\n");
}

TEST_F(Folder, ProgramsWithAWholeBookToSayAreReadToTheEndAndCut) {
  script("talks", "head -c 300000 /dev/zero; exit 4");
  const ProgramAnswer answer = ask_program({(path_ / "talks").string()}, milliseconds(5000));
  EXPECT_EQ(answer.exit_code, 4);
  EXPECT_EQ(answer.output.size(), 64u << 10);
}

TEST_F(Folder, ProgramsThatHangAreEndedWithWhatTheyStarted) {
  script("hangs", "echo begun; sleep 300 & wait");
  const ProgramAnswer answer = ask_program({(path_ / "hangs").string()}, milliseconds(300));
  EXPECT_TRUE(answer.timed_out);
  EXPECT_EQ(answer.exit_code, 128 + 9);
}

TEST_F(Folder, ProgramsThatDoNotExistAreSaidSo) {
  const ProgramAnswer answer = ask_program({(path_ / "absent").string()}, milliseconds(300));
  EXPECT_EQ(answer.exit_code, -1);
  EXPECT_THAT(answer.output, ::testing::HasSubstr("No such file"));
}

TEST_F(Folder, MpirunIsFoundOnPathAndAsked) {
  script("mpirun", "echo 'mpirun (Open MPI) 5.0.3'");
  const MpiInstall found = find_mpi("/nowhere::" + path_.string());
  EXPECT_EQ(found.mpirun, (path_ / "mpirun").string());
  EXPECT_EQ(found.version.flavour, MpiFlavour::kOpenMpi);
  EXPECT_EQ(found.version.version, "5.0.3");
  EXPECT_EQ(find_mpi("/nowhere").version.flavour, MpiFlavour::kNone);
  EXPECT_EQ(find_mpi("").version.flavour, MpiFlavour::kNone);
}

TEST_F(Folder, AFileThatIsNotExecutableIsNoProgram) {
  std::ofstream(path_ / "mpirun") << "text";
  EXPECT_EQ(find_program("mpirun", path_.string()), std::nullopt);
}

TEST_F(Folder, TheEngineIsAbsentOrTellsItsBuildOrTellsWhyNot) {
  EXPECT_FALSE(find_engine(path_).exists);
  script("weft-engine", "echo 'weft-engine 0.1.0 (build 0123456789ab)'");
  EXPECT_EQ(find_engine(path_).build_id, "0123456789ab");
  script("weft-engine", "echo 'libtorch.so: cannot open shared object file' >&2; exit 127");
  const EngineState broken = find_engine(path_);
  EXPECT_TRUE(broken.exists);
  EXPECT_EQ(broken.build_id, "");
  EXPECT_THAT(broken.error, ::testing::HasSubstr("127"));
  EXPECT_THAT(broken.error, ::testing::HasSubstr("libtorch.so"));
}

}  // namespace
}  // namespace weft
