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
      "  swr-tune judge --replay tuned.spaces --strategy model\n"
      "  swr-tune judge --replay cache.json --spec blur.json --gpu a100");
  app.add_option("--replay", options.replay,
                 "Databases, files written by swr-tune db record (.spaces), and caches of "
                 "Kernel Tuner (.json) of the kernel of --spec on --gpu")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
  app.add_option("--strategy", options.strategies, "Strategies to compare")
      ->default_str("exhaustive,random, and model; with --spec learned")
      ->type_name("LIST");
  add_spec_options(app, options);
  add_gpu_option(app, options);
  add_json_option(app, options);
}

}  // namespace swr::cli
