#include "cli/corpus_command.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class CorpusCommandTest : public CorpusTest {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  // Runs `weft ARGUMENTS...` in this process; what it printed.
  std::string run(std::vector<std::string> arguments) const {
    CLI::App app("weft");
    add_corpus_command(app);
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }
};

TEST_F(CorpusCommandTest, BuildVerifyAndStatsAgree) {
  write("t/a.txt", "hello");
  write("t/b.jsonl", jsonl_line("x", "body") + jsonl_line("", "body") + "oops\n");
  const std::string built = run({"corpus", "build", "--out", at("c"), "--text-key", "body",
                                 "--on-bad-record", "skip", "--shard-tokens", "4", at("t")});
  EXPECT_THAT(built, AllOf(HasSubstr("documents 2   empty 1   skipped 1"), HasSubstr("bad_json"),
                           HasSubstr("u16 in 2 shards")));
  const std::string hash = Corpus(folder_ / "c").hash().hex();
  EXPECT_THAT(built, HasSubstr(hash));
  EXPECT_THAT(run({"corpus", "verify", at("c")}), AllOf(HasSubstr("whole"), HasSubstr(hash)));
  EXPECT_THAT(run({"corpus", "stats", at("c")}),
              AllOf(HasSubstr("2 documents, 8 tokens"), HasSubstr("█"), HasSubstr(hash)));
  const auto json = nlohmann::json::parse(run({"corpus", "stats", "--json", at("c")}));
  EXPECT_EQ(json["hash"], hash);
  EXPECT_EQ(json["num_targets"], 6);
  EXPECT_EQ(json["length"]["max"], 6);
  EXPECT_EQ(json["buckets"][1]["num_samples"], 1);
}

TEST_F(CorpusCommandTest, MistakesAreUserErrorsThatNameTheFlag) {
  write("a.txt", "x");
  EXPECT_THAT(
      user_error_of([&] {
        run({"corpus", "build", "--out", at("c"), "--on-bad-record", "ignore", at("a.txt")});
      }),
      AllOf(HasSubstr("--on-bad-record"), HasSubstr("ignore")));
  for (const std::string tokens : {"0", "many"}) {
    EXPECT_THROW(run({"corpus", "build", "--out", at("c"), "--shard-tokens", tokens, at("a.txt")}),
                 UserError);
  }
  EXPECT_THROW(run({"corpus", "build", "--out", at("c"), at("absent")}), UserError);
  EXPECT_THROW(run({"corpus", "stats", at("absent")}), UserError);
  EXPECT_THROW(run({"corpus", "build", at("a.txt")}), CLI::ParseError);
  EXPECT_EQ(names_in_folder(), "a.txt");
}

TEST_F(CorpusCommandTest, ASignalEndsABuildWithoutLeavings) {
  // Enough documents that the build is still running when the signal comes; it is sent from inside,
  // so nothing races.
  for (int i = 0; i < 50; ++i) write(fmt::format("t/{:02}.txt", i), "document");
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = ::fork();
    if (child == 0) {
      // Blocked signals stay pending: the build meets this one at its first chunk.
      sigset_t blocked;
      ::sigemptyset(&blocked);
      ::sigaddset(&blocked, signal);
      ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
      ::raise(signal);
      try {
        run({"corpus", "build", "--out", at("c"), at("t")});
      } catch (const UserError&) {
        ::_exit(2);
      } catch (const Error& error) {
        ::_exit(std::string(error.what()).find("stopped by") != std::string::npos ? 1 : 3);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_EQ(names_in_folder(), "t");
  }
}

TEST_F(CorpusCommandTest, SignalsWorkAsBeforeWhenTheBuildIsOver) {
  write("a.txt", "x");
  run({"corpus", "build", "--out", at("c"), at("a.txt")});
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_EQ(::sigismember(&mask, SIGINT), 0);
  EXPECT_EQ(::sigismember(&mask, SIGTERM), 0);
}

}  // namespace
}  // namespace weft
