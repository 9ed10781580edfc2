#include "machine/mpi_install.h"

#include <unistd.h>

#include <cctype>

#include "base/error.h"
#include "machine/child_process.h"

namespace weft {
namespace {

constexpr std::chrono::seconds kAnswerLimit{
    10};  // libtorch starts in a second; a cold disk in more

// The first number with a dot at or after `at`: "4.1.4".
std::string version_number(std::string_view text, std::size_t at) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (; at < text.size(); ++at) {
    if (!is_digit(text[at])) continue;
    std::size_t end = at;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
    std::string number(text.substr(at, end - at));
    while (number.ends_with('.')) number.pop_back();
    if (number.find('.') != std::string::npos) return number;
    at = end;
  }
  return {};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string_view to_string(MpiFlavour flavour) {
  switch (flavour) {
    case MpiFlavour::kNone:
      return "none";
    case MpiFlavour::kOpenMpi:
      return "Open MPI";
    case MpiFlavour::kMpich:
      return "MPICH";
    case MpiFlavour::kIntel:
      return "Intel MPI";
    case MpiFlavour::kUnknown:
      break;
  }
  return "an unknown MPI";
}

MpiVersion parse_mpirun_version(std::string_view text) {
  struct Mark {
    std::string_view words;
    MpiFlavour flavour;
  };
  // Intel's also says "based on MPICH" in some releases: the more special words first.
  for (const Mark& mark :
       {Mark{"Intel(R) MPI", MpiFlavour::kIntel}, Mark{"Open MPI", MpiFlavour::kOpenMpi},
        Mark{"OpenRTE", MpiFlavour::kOpenMpi}, Mark{"HYDRA", MpiFlavour::kMpich},
        Mark{"MPICH", MpiFlavour::kMpich}}) {
    const std::size_t at = text.find(mark.words);
    if (at != std::string_view::npos)
      return {.flavour = mark.flavour, .version = version_number(text, at)};
  }
  return {.flavour = MpiFlavour::kUnknown, .version = version_number(text, 0)};
}

MpiInstall find_mpi(const std::string& search_path) {
  MpiInstall install;
  install.is_root = ::geteuid() == 0;
  const auto mpirun = find_program("mpirun", search_path);
  if (!mpirun) return install;
  install.mpirun = mpirun->string();
  const ProgramAnswer answer = ask_program({install.mpirun, "--version"}, kAnswerLimit);
  install.version = parse_mpirun_version(answer.output);
  return install;
}

std::string parse_build_id(std::string_view version_text) {
  constexpr std::string_view kMark = "(build ";
  const std::size_t at = version_text.find(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = version_text.substr(at + kMark.size());
  const std::size_t end = rest.find(')');
  return end == std::string_view::npos ? std::string() : std::string(rest.substr(0, end));
}

EngineState find_engine(const std::filesystem::path& folder) {
  EngineState state;
  const std::filesystem::path engine = folder / "weft-engine";
  state.path = engine.string();
  std::error_code error;
  state.exists = std::filesystem::exists(engine, error);
  if (!state.exists) return state;
  const ProgramAnswer answer = ask_program({state.path, "--version"}, kAnswerLimit);
  state.build_id = answer.exit_code == 0 ? parse_build_id(answer.output) : std::string();
  if (!state.build_id.empty()) return state;
  state.error = answer.timed_out ? "no answer within 10 s"
                                 : fmt::format("exit code {}, '{}'", answer.exit_code,
                                               first_line(answer.output));
  return state;
}

}  // namespace weft
