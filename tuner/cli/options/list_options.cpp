// SPDX-License-Identifier: MIT
// devices, emit and axes.
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_devices(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("devices", "List the GPUs present and the built-in profiles");
  app.add_option("--gpu", options.gpu,
                 "Print every number of this profile (an id or a .json file) and what it rests on")
      ->type_name("PROFILE");
  add_json_option(app, options);
}

void add_emit(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("emit", "Print one variant as a single self-contained .cu file");
  app.footer(
      "Example: swr-tune emit --variant tile_m=128,tile_n=64,warps=4,order=sawtooth,"
      "persistence=persistent > kernel.cu");
  app.add_option("--variant", options.variant_key,
                 "Key as tune and query print it; axes left out keep their default")
      ->required()
      ->type_name("KEY");
  add_kernel_options(app, options.problem);
  app.add_option("--out", options.out, "Write to a file instead of stdout")
      ->type_name("FILE")
      ->group("Files");
  add_generator_options(app, options);
}

void add_axes(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand("axes", "List the tuning axes and the constraints");
  add_json_option(app, options);
}

}  // namespace swr::cli
