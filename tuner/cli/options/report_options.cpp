// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_report(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "report", "Write what the database holds as one HTML page with charts");
  app.footer(
      "The page needs no network. Nothing is measured or predicted anew.\n\n"
      "Examples:\n"
      "  swr-tune report --out report.html --db tuned.db\n"
      "  swr-tune report --out report.html --db new.db --against old.db");
  app.add_option("--out", options.out, "The page to write")
      ->required()
      ->type_name("FILE.html")
      ->group("Files");
  app.add_option("--against", options.against,
                 "Compare with another database: of another commit, GPU setting or day")
      ->type_name("FILE")
      ->group("Files");
  add_spec_options(app, options);
  add_database_option(app, options);
}

}  // namespace swr::cli
