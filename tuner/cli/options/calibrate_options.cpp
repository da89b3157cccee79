// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_calibrate(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "calibrate", "Measure on the GPU present what its profile needs and write the profile");
  app.footer(
      "Measures the effective L2 for data that every SM reads, bandwidth and latency of L2 and\n"
      "DRAM, and the rates of mma.sync, ex2 and FMA.\n\n"
      "Example: swr-tune calibrate --out h200.json --sweep sweep.csv");
  app.add_option("--gpu", options.gpu, "auto (the first GPU present), or a profile's id or file")
      ->capture_default_str()
      ->type_name("GPU");
  app.add_option("--out", options.out, "The profile to write; its name without .json is its id")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  app.add_option("--sweep", options.sweep,
                 "Write the buffer sweep, measured beside modelled, to a CSV file")
      ->type_name("FILE")
      ->group("Files");
  add_generator_options(app, options);
  add_quiet_option(app, options);
  add_json_option(app, options);
}

}  // namespace swr::cli
