// SPDX-License-Identifier: MIT
// Options of the commands about this machine: doctor, completion, and the manual page.
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_doctor(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "doctor", "Check driver, NVRTC, counters, clocks, database and cache, and say what to do");
  app.footer(
      "Exit code 1 when something is broken. A machine without a GPU is not: it predicts.\n\n"
      "Example: swr-tune doctor --db tuned.db");
  add_database_option(app, options);
  add_generator_options(app, options);
  add_json_option(app, options);
}

void add_completion(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "completion", "Print the completion script for a shell: bash, zsh or fish");
  app.footer(
      "Examples:\n"
      "  swr-tune completion bash > ~/.local/share/bash-completion/completions/swr-tune\n"
      "  swr-tune completion zsh > ~/.zfunc/_swr-tune    (with ~/.zfunc in fpath)\n"
      "  swr-tune completion fish > ~/.config/fish/completions/swr-tune.fish");
  app.add_option("shell", options.shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
}

void add_man_page(CLI::App& program, Options& /*options*/) {
  program.add_subcommand(kManPageCommand, "Print the manual page")->group("");
}

}  // namespace swr::cli
