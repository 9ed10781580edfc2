#include "cli/program.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "cli/build_id.h"

namespace weft {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// CLI11 answers a misspelt command with "A subcommand is required"; say what was meant instead.
void check_command_name(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto names = command_names(*level);
    if (names.empty() || word.starts_with("-")) return;
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      const auto nearest = nearest_name(word, names);
      throw_user_error("unknown command '{}'{}; commands: {}", word,
                       nearest ? fmt::format("; did you mean '{}'?", *nearest) : "",
                       fmt::join(names, ", "));
    }
    level = level->get_subcommand(word);
  }
}

std::string with_suggestions(const CLI::App& app, const CLI::ParseError& error, int argc,
                             char** argv) {
  std::string message = error.what();
  const CLI::App* level = &app;
  for (int i = 1; i < argc; ++i) {
    const auto names = command_names(*level);
    if (std::find(names.begin(), names.end(), argv[i]) == names.end()) break;
    level = level->get_subcommand(argv[i]);
  }
  std::vector<std::string> options;
  const auto add_options = [&](const CLI::App& owner) {
    for (const CLI::Option* option : owner.get_options()) options.push_back(option->get_name());
  };
  add_options(*level);
  // An option group is a subcommand without a name.
  for (const CLI::App* group :
       level->get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    add_options(*group);
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (!word.starts_with("--") || level->get_option_no_throw(word) != nullptr) continue;
    if (const auto nearest = nearest_name(word, options)) {
      message += fmt::format("; did you mean '{}' instead of '{}'?", *nearest, word);
    }
  }
  return message;
}

// A full disk behind stdout shows only when the last bytes leave the buffer.
int flush_results() {
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (!failed) return 0;
  log_error("cannot write standard output; the results are incomplete");
  return kExitFailed;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv) {
  try {
    check_command_name(app, argc, argv);
    app.parse(argc, argv);
    return flush_results();
  } catch (const CLI::CallForHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForAllHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForVersion& request) {
    return app.exit(request);
  } catch (const CLI::RuntimeError& end) {
    const int failed = flush_results();  // a command's own exit code
    return failed != 0 ? failed : end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    log_error("{}", with_suggestions(app, error, argc, argv));
    return kExitUsage;
  } catch (const UserError& error) {
    log_error("{}", error.what());
    return kExitUsage;
  } catch (const PeerFailure&) {
    return kExitFailed;  // the rank that failed says why
  } catch (const std::exception& error) {
    log_error("{}", error.what());
    return kExitFailed;
  }
}

const std::string& build_id() {
  static const std::string id = WEFT_BUILD_ID;
  return id;
}

std::string version_text(const std::string& program) {
  return fmt::format("{} {} (build {})", program, WEFT_VERSION, build_id());
}

}  // namespace weft
