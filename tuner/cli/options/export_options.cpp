// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace swr::cli {
namespace {

std::string exported_operations() {
  std::string names;
  for (const Operation* const operation : operations_of_swr()) {
    names.append(names.empty() ? "" : ", ").append(name_of(*operation));
  }
  return names;
}

}  // namespace

void add_export(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "export", "Write the kernels of all winners: cubins and a manifest, or a C++ package");
  app.footer(
      "Examples:\n"
      "  swr-tune export --out kernels\n"
      "  swr-tune export --out kernels --gpu gb10\n"
      "  swr-tune export --format cpp --name my_kernels --out my_kernels");
  app.add_option(
         "--format", options.export_format,
         "dir: cubins and manifest.json; cpp: a CMake project with embedded cubins that needs "
         "only the CUDA driver")
      ->check(CLI::IsMember({"dir", "cpp"}))
      ->capture_default_str();
  app.add_option("--name", options.package_name,
                 "With --format cpp: name of the library and its namespace")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--op", options.export_op,
                 "Winners of one operation only: all, " + exported_operations() +
                     ", or a kernel of yours that the database has")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--gpu", options.export_gpu,
                 "Winners of one GPU only: auto, a profile or a profile's .json file; all exports "
                 "those of every GPU. With --spec also a list of them; a kernel's default variant "
                 "goes where nothing was measured, and the database may be missing")
      ->capture_default_str()
      ->type_name("GPU");
  app.add_option("--out", options.out, "Directory; created when missing")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  add_spec_options(app, options);
  add_database_option(app, options);
  add_l2_option(app, options, kAskedL2);
  add_generator_options(app, options);
  add_json_option(app, options);
}

}  // namespace swr::cli
