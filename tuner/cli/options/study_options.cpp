// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"
#include "tuner/study/study.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_study(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "study", "Repeat a paper's experiments: measured on the GPU present, else predicted");
  app.footer(
      "sawtooth: sectors against the formula, where misses begin, hit rate over active SMs, "
      "cyclic\n"
      "against sawtooth. tiled-attention: 80 shapes, best tile by shape and what it gains.\n"
      "gemm-swizzle: GEMM over swizzle strides and the order over k; the model's choice of "
      "stride.\n"
      "Points that the database knows are not tuned again, so the same command continues.\n\n"
      "Example: swr-tune study sawtooth --gpu gb10 --db study.db --out study");
  app.add_option("name", options.study, "sawtooth, tiled-attention or gemm-swizzle")
      ->check(CLI::IsMember(study_names()))
      ->required();
  add_gpu_option(app, options);
  app.add_option("--out", options.out, "Directory of NAME.csv and NAME.md; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  app.add_option("--peers", options.peers,
                 "gemm-swizzle: what gemm_peers --csv wrote, for the ratio to cuBLASLt")
      ->type_name("FILE")
      ->group("Files");
  add_database_option(app, options);
  add_generator_options(app, options);
  add_quiet_option(app, options);
  app.add_flag("--force", options.force, "Tune anew what the database knows");
}

}  // namespace swr::cli
