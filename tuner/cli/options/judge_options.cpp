// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_judge(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "judge", "Compare search strategies on recorded spaces, without a GPU");
  app.footer(
      "Regret is what the best variant found loses against the best of the space, after measuring\n"
      "8, 16 and 32 variants and a tenth of the space.\n\n"
      "Examples:\n"
      "  swr-tune judge --replay tuned.db\n"
      "  swr-tune judge --replay tuned.spaces --strategy model");
  app.add_option("--replay", options.replay,
                 "Databases and files written by swr-tune db record (.spaces)")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
  app.add_option("--strategy", options.strategies, "Strategies to compare")
      ->capture_default_str()
      ->type_name("LIST");
  add_json_option(app, options);
}

}  // namespace swr::cli
