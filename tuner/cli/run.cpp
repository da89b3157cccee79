// SPDX-License-Identifier: MIT
#include "core/printable.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output_guard.h"
#include "tuner/cli/terminal_text.h"
#include <swr/error.h>
#include <swr/store.h>

#include <algorithm>
#include <exception>
#include <ostream>
#include <utility>

namespace swr::cli {
namespace {

/// One line whatever the message holds, e.g. a compiler's log.
std::string one_line(std::string text) {
  text.erase(text.find_last_not_of(" \n\r") + 1);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return printable_line(text);
}

int report_error(std::ostream& err, const Environment& environment, const std::string& message,
                 int exit_code) {
  err << "swr-tune: " << error_label(environment) << " " << one_line(message) << std::endl;
  return exit_code;
}

/// Opening a database tells the process of its kernels.
void learn_stored_kernels(const Options& options, const Environment& environment) {
  const std::filesystem::path database =
      options.database ? *options.database : default_database(environment);
  if (may_ask_for_stored_kernel(options) && std::filesystem::exists(database)) {
    const Store store(database, Store::Mode::read_only,
                      options.replayed ? Store::Content::replayed : Store::Content::tuned);
  }
}

int run_command(const Session& session) {
  switch (session.options.command) {
    case Command::help:
      session.out << session.options.help_text;
      return kExitSuccess;
    case Command::tune:
      return run_tune(session);
    case Command::kernel:
      return run_kernel(session);
    case Command::query:
      return run_shown(session, run_query);
    case Command::explain:
      return run_shown(session, run_explain);
    case Command::calibrate:
      return run_calibrate(session);
    case Command::export_results:
      return run_export(session);
    case Command::devices:
      return run_shown(session, run_devices);
    case Command::emit:
      return run_emit(session);
    case Command::axes:
      return run_shown(session, run_axes);
    case Command::plan:
      return run_plan(session);
    case Command::measure_worker:
      return run_measure_worker(session);
    case Command::compile_worker:
      return run_compile_worker(session);
    case Command::record:
      return run_record(session);
    case Command::export_t4:
      return run_export_t4(session);
    case Command::import_results:
      return run_import(session);
    case Command::merge:
      return run_merge(session);
    case Command::export_csv:
      return run_export_csv(session);
    case Command::judge:
      return run_judge(session);
    case Command::report:
      return run_report(session);
    case Command::watch:
      return run_watch(session);
    case Command::doctor:
      return run_shown(session, run_doctor);
    case Command::completion:
      return run_completion(session);
    case Command::man_page:
      return run_man_page(session);
  }
  return kExitFailure;
}

}  // namespace

std::string command_line(const std::string& program, std::span<const std::string> arguments) {
  std::string line = program;
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n'\"\\$") == argument.npos;
    line += plain ? " " + argument : " '" + argument + "'";
  }
  return line;
}

GeneratorOptions generator_options(const Session& session) {
  GeneratorOptions options;
  options.cache_dir = session.options.cache_dir ? *session.options.cache_dir
                                                : default_cache_dir(session.environment);
  options.shared_cache = session.options.shared_cache;
  if (session.options.templates) {
    options.template_overlay = session.options.templates;
  } else if (session.environment.templates) {
    options.template_overlay = *session.environment.templates;
  }
  if (session.environment.nvrtc) {
    options.nvrtc_library = *session.environment.nvrtc;
  }
  return options;
}

Setting setting(const Session& session) {
  return {.l2_state = session.options.l2_state,
          .overlay_digest = overlay_digest(generator_options(session))};
}

std::filesystem::path database_path(const Session& session) {
  return session.options.database ? *session.options.database
                                  : default_database(session.environment);
}

int run_reporting(const std::function<int()>& body, const Environment& environment,
                  std::ostream& err) {
  try {
    return body();
  } catch (const Error& error) {
    const bool bad_value = error.code() == ErrorCode::invalid_argument;
    return report_error(err, environment, error.what(), bad_value ? kExitBadUsage : kExitFailure);
  } catch (const std::filesystem::filesystem_error& error) {
    // Such as of a working directory that was removed.
    const std::string path =
        error.path1().empty() ? "the working directory" : error.path1().string();
    return report_error(err, environment,
                        "cannot use " + path + " (" + error.code().message() +
                            "); name files by paths that are there",
                        kExitFailure);
  } catch (const std::exception& error) {
    return report_error(err, environment, std::string("unexpected: ") + error.what(), kExitFailure);
  }
}

int run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  const auto body = [&] {
    Options options = parse_options(arguments, environment.stdout_width);
    learn_stored_kernels(options, environment);
    take_kernels(options);
    const Session session{.options = std::move(options),
                          .environment = environment,
                          .command_line = command_line("swr-tune", arguments),
                          .arguments = {arguments.begin(), arguments.end()},
                          .out = out,
                          .err = err};
    check_outputs(session);
    const int exit_code = run_command(session);
    if (!out.flush()) {
      throw Error(ErrorCode::not_writable, "cannot write to standard output; is the disk full?");
    }
    return exit_code;
  };
  return run_reporting(body, environment, err);
}

}  // namespace swr::cli
