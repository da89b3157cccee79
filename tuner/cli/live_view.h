// SPDX-License-Identifier: MIT
// The live view of a file of events, or of a folder that several workers share.
#pragma once

#include "tuner/cli/tune_command.h"
#include "tuner/live/live_server.h"

#include <filesystem>
#include <memory>
#include <string>

namespace swr::cli {

/// Serves the page while it lives. Reads what is watched whenever a browser asks; never changes it.
class LiveView {
 public:
  /// Throws: what LiveServer throws.
  LiveView(const std::filesystem::path& watched, int port);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  std::string url() const { return server_->url(); }

 private:
  class Watched;

  std::unique_ptr<Watched> watched_;
  std::unique_ptr<LiveServer> server_;
};

/// A run that --watch shows: a session whose events go to a file, in a folder of its own where
/// --events names none, and the view of that file. Without --watch it is the session as it came.
class WatchedRun {
 public:
  /// Says on standard error where the page is. Its threads take no signal that is blocked here.
  explicit WatchedRun(const TuneSession& asked);
  ~WatchedRun() { end(); }
  WatchedRun(const WatchedRun&) = delete;
  WatchedRun& operator=(const WatchedRun&) = delete;

  const TuneSession& session() const { return session_; }
  /// Stops serving, and removes a folder of its own.
  void end();

 private:
  TuneSession session_;
  std::filesystem::path own_folder_;
  std::unique_ptr<LiveView> view_;
};

}  // namespace swr::cli
