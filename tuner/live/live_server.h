// SPDX-License-Identifier: MIT
// Serves one page and its data to browsers of this machine, and to nobody else.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace swr {

/// Listens on 127.0.0.1 alone, and answers only requests that name it so: a page of somebody else
/// cannot read the state through a name of its own. Answers in a thread of its own while it lives,
/// to at most 16 connections, each for a few seconds: whatever clients send, its end waits for
/// none.
class LiveServer {
 public:
  /// The page's data as JSON; called from the server's thread.
  using State = std::function<std::string()>;

  /// `port` 0 takes one that is free. Throws: Error{invalid_argument} when the port is taken.
  LiveServer(std::string page, State state, int port);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  /// "http://127.0.0.1:8080/".
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
