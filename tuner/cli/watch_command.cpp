// SPDX-License-Identifier: MIT
// swr-tune watch: a run as a page, while it goes on.
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/live_view.h"
#include "tuner/cli/options.h"
#include <swr/error.h>

#include <chrono>
#include <ostream>
#include <thread>

namespace swr::cli {
namespace {

struct WatchArguments {
  std::filesystem::path watched;  ///< File or folder.
  int port = 0;
};

int run_watch(const Session& session, const WatchArguments& asked) {
  constexpr std::chrono::milliseconds kAskEvery{100};
  const std::filesystem::path& watched = asked.watched;
  if (!std::filesystem::exists(watched)) {
    throw Error(ErrorCode::not_found, watched.string() +
                                          " does not exist; name the file of tune --events, or the "
                                          "folder of tune --queue");
  }
  const InterruptListener interrupt;
  const LiveView view(watched, asked.port);
  session.out << "watching " << watched.string() << " on " << view.url()
              << " (this machine only); Ctrl-C ends\n"
              << std::flush;
  while (!interrupt.interrupted()) {
    std::this_thread::sleep_for(kAskEvery);
  }
  return kExitSuccess;
}

}  // namespace

void add_watch(CommandLine& line) {
  auto [options, asked] = line.add<WatchArguments>(
      {.name = "watch",
       .meaning = "Show a run as a page on this machine while it goes on",
       .footer =
           "A file is one of tune --events. A folder is that of tune --queue, or any with files of "
           "events (.jsonl) of several workers. The page is served to this machine alone; from "
           "another one, ssh -L 8080:127.0.0.1:8080 HOST brings it over.\n\n"
           "Examples:\n"
           "  swr-tune watch events.jsonl\n"
           "  swr-tune watch results --port 8080",
       .group = "Tune"},
      run_watch);
  options.add("path PATH", asked.watched, "File of events, or folder", {.is_required = true});
  add_port_option(options, asked.port);
}

}  // namespace swr::cli
