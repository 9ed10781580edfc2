// Tests of a file's reader: a good file of the test at hand, and what the reader says after a part
// of it was changed.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace weft::testing {

class EditedFile : public ::testing::Test {
 protected:
  using Path = std::filesystem::path;

  // `save` writes the good file, `load` reads whatever is there; `prefix` begins its name.
  EditedFile(const std::string& prefix, std::function<void(const Path&)> save,
             std::function<void(const Path&)> load)
      : path_(Path(::testing::TempDir()) /
              (prefix + "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
               ".json")),
        save_(std::move(save)),
        load_(std::move(load)) {}

  void SetUp() override {
    save_(path_);
    text_ = read_text_file(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // The error message after replacing `from` by `to` in the text.
  std::string error_after(const std::string& from, const std::string& to) {
    std::string changed = text_;
    const auto at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    std::ofstream(path_, std::ios::binary) << changed;  // no fsync: a thousand files
    try {
      load_(path_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  Path path_;
  std::string text_;  // of the good file; a test may set another one

 private:
  std::function<void(const Path&)> save_;
  std::function<void(const Path&)> load_;
};

}  // namespace weft::testing
