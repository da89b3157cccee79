// SPDX-License-Identifier: MIT
// A program in sections, each of which may fail without the others: after an illegal access a
// process can use its GPU no more, so sections run in a child, and another child goes on after the
// section that ended it.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace swr::gpu {

struct Section {
  std::string name;
  std::function<void()> run;
};

inline double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// What child and parent both see.
struct Progress {
  volatile int section = 0;
  volatile int failures = 0;  ///< Properties with wrong values.
  volatile double began = 0.0;
  char at[800] = "";  ///< What the section does, if it says so.
  char fault[1000] = "the process ended";
};
inline Progress* shared_progress = nullptr;

/// Says what the section does from now on, for the line of one that has to be ended.
inline void note(const std::string& what) {
  if (shared_progress != nullptr) {
    std::snprintf(shared_progress->at, sizeof shared_progress->at, "%s", what.c_str());
  }
}

/// Ends the child: the section at hand counts as faulty.
[[noreturn]] inline void end_section(const std::string& why) {
  if (shared_progress != nullptr) {
    std::snprintf(shared_progress->fault, sizeof shared_progress->fault, "%s", why.c_str());
  } else {
    std::fprintf(stderr, "%s\n", why.c_str());
  }
  std::fflush(nullptr);
  std::_Exit(2);
}

/// Requires: this process does not touch the GPU but in sections.
class Sections {
 public:
  explicit Sections(double seconds, double seconds_of_one = 25.0)
      : seconds_(seconds), seconds_of_one_(seconds_of_one) {
    void* const shared =
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
      end_section("no shared memory between processes");
    }
    progress_ = shared_progress = new (shared) Progress;
  }

  void add(std::string name, std::function<void()> run) {
    all_.push_back({std::move(name), std::move(run)});
  }
  /// Drops the sections whose names do not contain `text`.
  void keep(const std::string& text) {
    std::erase_if(
        all_, [&](const Section& section) { return section.name.find(text) == std::string::npos; });
  }
  void count_failure() const { progress_->failures = progress_->failures + 1; }
  int failures() const { return progress_->failures; }

  /// How many sections had a fault or were not reached in time.
  int run() {
    const double end = seconds_now() + seconds_;
    int lost = 0;
    const int count = static_cast<int>(all_.size());
    for (int next = 0; next < count;) {
      if (seconds_now() >= end) {
        std::printf("| %s | not reached in %.0f s | |\n", name(next), seconds_);
        ++lost;
        ++next;
        continue;
      }
      std::fflush(nullptr);
      progress_->section = next;
      const pid_t child = fork();
      if (child < 0) {
        end_section("fork failed");
      }
      if (child == 0) {
        run_until(end);
      }
      const char* const fault = wait_for(child);
      next = progress_->section;
      if (fault != nullptr) {
        std::printf("| %s | FAULT: %s | |\n", name(next), fault);
        ++lost;
        ++next;
      }
    }
    std::fflush(stdout);
    return lost;
  }

 private:
  const char* name(int section) const {
    return all_[static_cast<std::size_t>(section)].name.c_str();
  }
  [[noreturn]] void run_until(double end) const {
    const int count = static_cast<int>(all_.size());
    while (progress_->section < count && seconds_now() < end) {
      progress_->began = seconds_now();
      note("");
      all_[static_cast<std::size_t>(progress_->section)].run();
      progress_->section = progress_->section + 1;
    }
    std::fflush(nullptr);
    std::_Exit(0);
  }
  /// What ended the child before its time; null when nothing did.
  const char* wait_for(pid_t child) const {
    progress_->began = seconds_now();
    for (;;) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == child) {
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? nullptr : progress_->fault;
      }
      if (seconds_now() - progress_->began > seconds_of_one_) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        std::snprintf(progress_->fault, sizeof progress_->fault, "took too long%s%s",
                      progress_->at[0] != 0 ? ", at " : "", progress_->at);
        return progress_->fault;
      }
      usleep(20000);
    }
  }

  std::vector<Section> all_;
  double seconds_;
  double seconds_of_one_;
  Progress* progress_;
};

}  // namespace swr::gpu
