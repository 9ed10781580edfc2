// Every process of the job runs the same tests in the same order, each as its own rank. Rank 0
// shows the progress; the others speak when something fails. A failure on any rank makes that
// process, and so mpirun, end with 1.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/mpi/mpi_test_session.h"

namespace weft {
namespace {

std::unique_ptr<mpi_transport::Session>& session_slot() {
  static std::unique_ptr<mpi_transport::Session> session;  // of this test program's process
  return session;
}

class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(std::int32_t rank) : rank_(rank) {}

 private:
  // Asking for the current test while a result is reported would lock GoogleTest against itself.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d: %s\n", rank_, test_.c_str(),
                 result.file_name() != nullptr ? result.file_name() : "?", result.line_number(),
                 result.message());
  }
  const std::int32_t rank_;
  std::string test_;
};

}  // namespace

mpi_transport::Session& test_session() { return *session_slot(); }

}  // namespace weft

int main(int argc, char** argv) {
  weft::session_slot() = std::make_unique<weft::mpi_transport::Session>();
  testing::InitGoogleTest(&argc, argv);  // makes the tests' parameters, which need the session
  const std::int32_t rank = weft::test_session().rank();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new weft::FailurePrinter(rank));
  }
  const int result = RUN_ALL_TESTS();
  weft::session_slot().reset();
  return result;
}
