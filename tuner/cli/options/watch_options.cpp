// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {
namespace {

constexpr int kHighestPort = 65535;

}  // namespace

void add_port_option(CLI::App& app, Options& options) {
  CLI::Validator is_port = CLI::Range(0, kHighestPort);
  is_port.description("");
  app.add_option("--port", options.port, "Port of the live view; 0 takes one that is free")
      ->capture_default_str()
      ->type_name("N")
      ->check(is_port)
      ->group("Live view");
}

void add_watch(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("watch", "Show a run as a page on this machine while it goes on");
  app.footer(
      "A file is one of tune --events. A folder is that of tune --queue, or any with files of "
      "events "
      "(.jsonl) of several workers. The page is served to this machine alone; from another one, "
      "ssh -L 8080:127.0.0.1:8080 HOST brings it over.\n\n"
      "Examples:\n"
      "  swr-tune watch events.jsonl\n"
      "  swr-tune watch results --port 8080");
  app.add_option("path", options.watched, "File of events, or folder")
      ->required()
      ->type_name("PATH");
  add_port_option(app, options);
}

}  // namespace swr::cli
