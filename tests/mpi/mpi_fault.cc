// One rank of a job in which one rank does something wrong at step 3. fault_test.py starts it and
// looks at what the job says and leaves behind.
//
// Usage: mpi_fault FAULT RANK LIMIT_MS; FAULT: none, exit, _exit, kill, segv, sleep, stop, loop,
// wrong_size, wrong_label, missing_send, exception, user_error, dropped.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/mpi/mpi_world.h"

namespace weft {
namespace {

constexpr std::int32_t kSteps = 6;
constexpr std::int32_t kFaultyStep = 3;
constexpr std::size_t kFloats = 200'000;  // far above what MPI buffers

// One hop to the next rank, in which `fault` may change what this rank sends.
void ring_hop(Communicator& comm, std::int32_t step, std::string_view fault) {
  const std::int32_t me = comm.rank().value(), size = comm.size();
  std::vector<float> outgoing(fault == "wrong_size" ? kFloats - 1 : kFloats, 1.0F);
  std::vector<float> incoming(kFloats);
  const OpLabel label{.operation = "ring kv", .step = step, .slot = 1, .layer = 0, .group = 2};
  OpLabel sent = label;
  if (fault == "wrong_label") sent.layer = 7;
  const auto bytes = [](const std::vector<float>& values) {
    return Bytes(static_cast<std::int64_t>(values.size() * sizeof(float)));
  };
  const std::array recvs{RecvOp{Rank((me + size - 1) % size), incoming.data(), bytes(incoming)}};
  Handle received = comm.exchange(Channel::kRing, label, {}, recvs);
  if (fault == "exception") throw std::runtime_error("no memory left");
  if (fault == "user_error") throw UserError("document 7 is damaged");
  if (fault == "dropped") {  // of a message that nobody ever sends
    const std::array none{RecvOp{Rank((me + 1) % size), outgoing.data(), bytes(outgoing)}};
    const Handle dropped = comm.exchange(Channel::kRing, label, {}, none);
  }
  if (fault != "missing_send") {
    const std::array sends{SendOp{Rank((me + 1) % size), outgoing.data(), bytes(outgoing)}};
    comm.exchange(Channel::kRing, sent, sends, {}).wait();
  }
  received.wait();
}

void strike(std::string_view fault) {
  if (fault == "exit") std::exit(3);
  if (fault == "_exit") ::_exit(3);
  if (fault == "kill") ::raise(SIGKILL);
  if (fault == "segv") ::raise(SIGSEGV);
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault == "loop") {
    const volatile bool forever = true;
    while (forever) {
    }
  }
}

void run_steps(Communicator& comm, std::string_view fault, std::int32_t faulty) {
  for (std::int32_t step = 0; step < kSteps; ++step) {
    const bool strikes = step == kFaultyStep && comm.rank().value() == faulty;
    if (strikes) strike(fault);
    ring_hop(comm, step, strikes ? fault : "none");
    std::vector<float> gradients(1000, 1.0F);
    all_reduce<float>(comm, gradients, ReduceOp::kSum, {.operation = "gradients", .step = step});
  }
  if (comm.rank() == Rank(0)) std::puts("all steps done");
}

std::int32_t number(std::string_view text) {
  std::int32_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string_view fault = argv[1];
  const std::int32_t faulty = weft::number(argv[2]);
  const std::chrono::milliseconds limit(weft::number(argv[3]));
  try {
    weft::run_mpi_rank({.wait_limit = limit},
                       [&](weft::Communicator& comm) { weft::run_steps(comm, fault, faulty); });
    return 0;
  } catch (const weft::PeerFailure&) {
    return 1;
  } catch (const weft::UserError& error) {
    weft::log_error("{}", error.what());
    return 2;
  } catch (const std::exception& error) {
    weft::log_error("{}", error.what());
    return 1;
  }
}
