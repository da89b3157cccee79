// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

CLI::Validator at_least(int low) {
  constexpr int kHigh = 1000000;
  CLI::Validator check = CLI::Range(low, kHigh);
  check.description("");
  return check;
}

CLI::Option* add_gpu_option(CLI::App& app, Options& options) {
  return app
      .add_option("--gpu", options.gpu,
                  "auto (the first GPU present), a profile (see swr-tune devices) or a profile's "
                  ".json file; a GPU that is not present is predicted")
      ->capture_default_str()
      ->type_name("GPU");
}

void add_database_option(CLI::App& app, Options& options) {
  app.add_option("--db", options.database,
                 "Database [SWR_DB, else $XDG_DATA_HOME/swr/tuned.db, else "
                 "~/.local/share/swr/tuned.db]")
      ->type_name("FILE")
      ->group("Files");
}

void add_templates_option(CLI::App& app, Options& options) {
  app.add_option("--templates", options.templates,
                 "Files here replace the built-in templates of the same path [SWR_TEMPLATE_DIR]")
      ->type_name("DIR")
      ->group("Files");
}

void add_generator_options(CLI::App& app, Options& options) {
  app.add_option("--cache-dir", options.cache_dir,
                 "Cubin cache [SWR_CACHE_DIR, else $XDG_CACHE_HOME/swr, else ~/.cache/swr]")
      ->type_name("DIR")
      ->group("Files");
  app.add_flag("--shared-cache", options.shared_cache,
               "Take kernels that others of the cache's group have stored")
      ->group("Files");
  add_templates_option(app, options);
}

void add_l2_option(CLI::App& app, Options& options, const char* help) {
  app.add_option_function<std::string>(
         "--l2", [&](const std::string& text) { options.l2_state = parse_l2_state(text); }, help)
      ->default_str("warm")
      ->type_name("STATE")
      ->group("Measuring");
}

void add_spec_options(CLI::App& app, Options& options) {
  app.add_option("--spec", options.kernel.specs,
                 "Spec of a kernel of yours, in place of --op; more than one where each is read")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group("Problem");
  app.add_option("--arg", options.kernel.sizes,
                 "A size of the kernel of --spec, or of --op NAME where the database has its spec")
      ->type_name("NAME=N[,N]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group("Problem");
}

void add_objective_option(CLI::App& app, Options& options, const char* help) {
  app.add_option("--objective", options.objective, help)->type_name("WHAT")->group("Objective");
}

void add_json_option(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "One JSON document on stdout instead of text")
      ->group("Output");
}

void add_quiet_option(CLI::App& app, Options& options) {
  app.add_flag("--quiet", options.quiet, "No progress")->group("Output");
}

}  // namespace swr::cli
