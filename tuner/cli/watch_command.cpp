// SPDX-License-Identifier: MIT
// swr-tune watch: a run as a page, while it goes on.
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/live_view.h"
#include <swr/error.h>

#include <chrono>
#include <ostream>
#include <thread>

namespace swr::cli {

int run_watch(const Session& session) {
  constexpr std::chrono::milliseconds kAskEvery{100};
  const std::filesystem::path& watched = *session.options.watched;
  if (!std::filesystem::exists(watched)) {
    throw Error(ErrorCode::not_found, watched.string() +
                                          " does not exist; name the file of tune --events, or the "
                                          "folder of tune --queue");
  }
  const InterruptListener interrupt;
  const LiveView view(watched, session.options.port);
  session.out << "watching " << watched.string() << " on " << view.url()
              << " (this machine only); Ctrl-C ends\n"
              << std::flush;
  while (!interrupt.interrupted()) {
    std::this_thread::sleep_for(kAskEvery);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
