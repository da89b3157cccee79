// SPDX-License-Identifier: MIT
// Keeps fork() from copying locks that somebody holds.
#pragma once

namespace swr {

/// While one lives, fork() in another thread waits: a child would find SQLite's locks taken for
/// ever. A thread has one at a time, and none where it forks.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

}  // namespace swr
