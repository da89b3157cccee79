// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {
namespace {

/// A subcommand of db that writes files; `out` says what --out names.
CLI::App& add_db_writer(CLI::App& db, Options& options, const std::string& name,
                        const std::string& description, const std::string& out,
                        const std::string& example) {
  CLI::App& app = *db.add_subcommand(name, description);
  app.footer("Example: swr-tune db " + name + " --out " + example);
  app.add_option("--out", options.out, out)->required()->type_name("PATH")->group("Files");
  add_spec_options(app, options);
  add_database_option(app, options);
  return app;
}

void add_record(CLI::App& db, Options& options) {
  CLI::App& app = add_db_writer(
      db, options, "record", "Write every tuned space as text, for judge and for tests",
      "A file that ends in .spaces takes all spaces; else a directory takes a JSON file for each, "
      "and is created when missing",
      "tuned.spaces");
  app.add_option("--keep", options.keep,
                 "Recordings that are written too, but for spaces that the database has")
      ->type_name("FILE")
      ->group("Files");
}

void add_import(CLI::App& db, Options& options) {
  CLI::App& app = *db.add_subcommand(
      "import", "Store results of files in the T4 format 1.0 and of caches of Kernel Tuner");
  app.alias("import-t4");
  app.footer(
      "Examples:\n"
      "  swr-tune db import --from results/*.t4.json --db tuned.db\n"
      "  swr-tune db import --from cache.json --spec blur.json --gpu a100 --db tuned.db");
  app.add_option(
         "--from", options.imports,
         "Files of T4, such as export-t4 writes, each of which says under \"swr\" what it is "
         "of, and caches of the kernel of --spec on --gpu")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
  add_spec_options(app, options);
  add_gpu_option(app, options);
  add_database_option(app, options);
}

void add_merge(CLI::App& db, Options& options) {
  CLI::App& app = *db.add_subcommand("merge", "Join the databases of several workers into one");
  app.footer(
      "Merging again adds nothing. Results of one device that are not comparable (other "
      "templates,\n"
      "NVRTC, driver, L2 state or options) are refused, and --out stays as it was.\n\n"
      "Example: swr-tune db merge --out tuned.db --from results/*.db");
  app.add_option("--out", options.out, "Database to add to; created when missing")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  app.add_option("--from", options.imports, "Databases to read")
      ->required()
      ->type_name("FILE...")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
}

}  // namespace

void add_db(CLI::App& program, Options& options) {
  CLI::App& app =
      *program.add_subcommand("db", "Write the database's results in other forms, and read them");
  app.require_subcommand(1);
  const std::string directory = "Directory; created when missing";
  add_record(app, options);
  add_db_writer(app, options, "export-t4",
                "Write every measured space in the T4 auto-tuning results format 1.0", directory,
                "results");
  add_import(app, options);
  add_merge(app, options);
  add_db_writer(app, options, "export-csv",
                "Write every measured space as CSV with the columns of the CUTLASS profiler",
                directory, "results");
}

}  // namespace swr::cli
