// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_query(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("query", "Print the best stored variant for a problem");
  app.footer(
      "The answer says how it matched: exact, nearest (another shape), same_arch (another "
      "device),\n"
      "predicted (nothing measured fits), modelled (nothing near is stored) or default_only.\n"
      "Measured results that come with swr answer where the database has none nearer.\n\n"
      "Example: swr-tune query --gpu gb10 --seq 131072 --json");
  add_problem_options(app, options.problem, "a list asks for several problems");
  add_spec_options(app, options);
  add_gpu_option(app, options);
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_templates_option(app, options);
  add_objective_option(app, options, "Ask for what runs with this very --objective decided [time]");
  app.add_flag("--replayed", options.replayed,
               "Ask a database of tune --replay --db, whose results no GPU has given")
      ->group("Files");
  add_json_option(app, options);
}

}  // namespace swr::cli
