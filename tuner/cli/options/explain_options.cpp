// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_explain(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "explain", "Print every term of one variant's predicted time and L2 traffic");
  app.footer(
      "Without --variant: the best stored for exactly this problem and GPU, else the best of the\n"
      "whole space by prediction.\n\n"
      "Example: swr-tune explain --gpu gb10 --seq 131072");
  add_problem_options(app, options.problem, "a list explains several problems");
  add_spec_options(app, options);
  add_gpu_option(app, options);
  app.add_option("--variant", options.variant_key,
                 "Key as tune and query print it; axes left out keep their default")
      ->type_name("KEY");
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_generator_options(app, options);
  add_json_option(app, options);
}

}  // namespace swr::cli
