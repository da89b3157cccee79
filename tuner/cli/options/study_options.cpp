// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"
#include "tuner/study/study.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace swr::cli {

void add_study(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "study", "Repeat a paper's experiments: measured on the GPU present, else predicted");
  std::vector<std::string> names;
  std::string footer;
  for (const StudyEntry& study : studies()) {
    names.emplace_back(study.name);
    footer += std::string(study.name) + ": " + std::string(study.summary) + ".\n";
  }
  app.footer(
      footer +
      "Points that the database knows are not tuned again, so the same command continues.\n\n"
      "Example: swr-tune study sawtooth --gpu gb10 --db study.db --out study");
  app.add_option("name", options.study, "One of the studies below")
      ->check(CLI::IsMember(names))
      ->required();
  add_gpu_option(app, options);
  app.add_option("--out", options.out, "Directory of NAME.csv and NAME.md; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  app.add_option("--peers", options.peers, "Times of a library, for studies that compare with one")
      ->type_name("FILE")
      ->group("Files");
  add_database_option(app, options);
  add_generator_options(app, options);
  add_quiet_option(app, options);
  app.add_flag("--force", options.force, "Tune anew what the database knows");
}

}  // namespace swr::cli
