#include "cli/doctor_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/program.h"
#include "machine/checkup.h"

namespace weft {
namespace {

struct DoctorFlags {
  std::string out = ".";
  bool is_json = false;
};

std::filesystem::path own_folder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(".") : self.parent_path();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A line that is redrawn on a terminal; elsewhere one line a part once a second has passed, so that
// a log shows life.
class PartLine {
 public:
  ~PartLine() {
    if (redraw_ && drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  void show(std::string_view part, int index, int num_parts) {
    drawn_ = true;
    if (redraw_) {
      fmt::print(stderr, "\r\x1b[Kdoctor: {} ({} of {})", part, index + 1, num_parts);
      std::fflush(stderr);
    } else if (std::chrono::steady_clock::now() - start_ > std::chrono::seconds(1)) {
      log_info("doctor: {} ({} of {})", part, index + 1, num_parts);
    }
  }

 private:
  bool redraw_ = allows_redraw(STDERR_FILENO);
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string_view color_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "\x1b[32m";
    case Verdict::kWarning:
      return "\x1b[33m";
    case Verdict::kProblem:
      break;
  }
  return "\x1b[31m";
}

// Words of `text` in lines of at most `width` columns, each after the first indented by `indent`.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (column > 0 && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    begin = end + 1;
  }
  return lines;
}

void print_table(const std::vector<Check>& checks) {
  constexpr std::size_t kIndent = 27;  // of what was found
  const bool color = allows_color(STDOUT_FILENO);
  const auto columns = static_cast<std::size_t>(std::max(60, terminal_columns(STDOUT_FILENO)));
  const std::size_t width = columns - kIndent;
  for (const Check& check : checks) {
    const std::string verdict = fmt::format("{:<8}", to_string(check.verdict));
    fmt::print("{}{}{} {:<17} {}\n", color ? color_of(check.verdict) : "", verdict,
               color ? "\x1b[0m" : "", check.name, wrapped(check.found, width, kIndent));
    if (!check.advice.empty())
      fmt::print("{:>{}}-> {}\n", "", kIndent - 3, wrapped(check.advice, width, kIndent));
  }
}

void print_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json json;
  json["schema"] = "weft.doctor.v1";
  json["build"] = build_id();
  json["verdict"] = to_string(worst_verdict(checks));
  json["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    for (const auto& [key, value] : check.values) values[key] = value;
    json["checks"].push_back({{"name", check.name},
                              {"verdict", to_string(check.verdict)},
                              {"found", check.found},
                              {"advice", check.advice},
                              {"values", std::move(values)}});
  }
  fmt::print("{}\n", json.dump(2));
}

void run_doctor(const DoctorFlags& flags) {
  WEFT_USER_CHECK(!flags.out.empty(), "doctor: --out is empty; name the folder for results");
  std::vector<Check> checks;
  {
    PartLine line;
    MeasureOptions options;
    options.out = flags.out;
    options.program_folder = own_folder();
    options.search_path = environment("PATH");
    options.blas_core_override = environment("OPENBLAS_CORETYPE");
    options.build_id = build_id();
    options.on_part = [&](std::string_view part, int index, int num_parts) {
      line.show(part, index, num_parts);
    };
    checks = check_machine(measure_machine(options));
  }
  flags.is_json ? print_json(checks) : print_table(checks);
  if (worst_verdict(checks) != Verdict::kProblem) return;
  std::string names;
  for (const Check& check : checks) {
    if (check.verdict == Verdict::kProblem)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", check.name);
  }
  std::fflush(stdout);
  throw Error(fmt::format("doctor: problems with {}", names));
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Look at this machine: speed, memory, disk, BLAS, MPI; what is wrong and what to do");
  doctor
      ->add_option("--out", flags->out,
                   "Folder whose disk is looked at: where results would go (default: .)")
      ->type_name("DIR");
  doctor->add_flag("--json", flags->is_json,
                   "Print one JSON object instead of a table (default: off)");
  doctor->callback([flags] { run_doctor(*flags); });
}

}  // namespace weft
