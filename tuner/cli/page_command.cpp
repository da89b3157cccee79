// SPDX-License-Identifier: MIT
// swr-tune report: what a database holds as one page to look at.
#include "db/history.h"
#include "report/page/page_data.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include <swr/error.h>
#include <swr/store.h>

#include <ctime>
#include <ostream>

namespace swr::cli {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[sizeof "2026-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::set<long long> winner_ids(const Store& store) {
  std::set<long long> ids;
  for (const Setting& setting : store.settings()) {
    for (const StoredResult& winner : store.winners(setting)) {
      ids.insert(winner.id);
    }
  }
  return ids;
}

/// What the page shows of a database.
Json data_of(const std::filesystem::path& database, const Session& session) {
  const History history = read_history(database);
  for (const std::string& kernel : history.unknown_kernels) {
    session.err << "swr-tune: note: " << database.filename().string() << " has results of "
                << kernel << " and not its spec; name that with --spec to see them\n";
  }
  if (history.places.empty()) {
    throw Error(ErrorCode::nothing_stored,
                "database " + database.string() + " holds no result; tune a problem first");
  }
  const auto winners = winner_ids(Store(database, Store::Mode::read_only));
  return page_data(history, winners,
                   {.database = database.filename().string(),
                    .command = session.command_line,
                    .written_at = utc_now()});
}

struct ReportArguments {
  std::filesystem::path out;
  std::optional<std::filesystem::path> against;  ///< A database to compare with.
};

int run_report(const Session& session, const ReportArguments& asked) {
  Json data = data_of(database_path(session), session);
  if (const auto& other = asked.against) {
    data["against"] = against(data, data_of(*other, session));
  }
  OutputFile file(session, asked.out);
  file.text() << render_page(data);
  file.finish();
  const std::size_t shapes = data["fields"].size();
  session.out << "wrote " << shapes << (shapes == 1 ? " tuned shape to " : " tuned shapes to ")
              << asked.out.string() << "\n";
  return kExitSuccess;
}

}  // namespace

void add_report(CommandLine& line) {
  auto [options, asked] = line.add<ReportArguments>(
      {.name = "report",
       .meaning = "Write what the database holds as one HTML page with charts",
       .footer = "The page needs no network. Nothing is measured or tuned; the model draws miss "
                 "curves.\n\n"
                 "Examples:\n"
                 "  swr-tune report --out report.html --db tuned.db\n"
                 "  swr-tune report --out report.html --db new.db --against old.db",
       .group = "Ask what is stored"},
      run_report);
  options.add("--out FILE.html", asked.out, "The page to write",
              {.group = "Files", .is_required = true, .role = FileRole::output});
  options.add("--against FILE", asked.against,
              "Compare with another database: of another commit, GPU setting or day",
              {.group = "Files", .role = FileRole::input});
  add_spec_option(options);
  add_database_option(options);
}

}  // namespace swr::cli
