// SPDX-License-Identifier: MIT
// Which problem this process tunes next: of its own share, or of a queue that it shares with
// others.
#pragma once

#include "tuner/cli/shard_choice.h"
#include "tuner/cli/tune_command.h"
#include "tuner/distribute/work_queue.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {

/// The places of the problems that a process may come to tune, given by what identifies each.
std::vector<std::size_t> places_of(const TuneSession& session, const ShardChoice& worker,
                                   const std::vector<std::string>& identities);

/// Used by one thread. What was taken last and is not done when it ends, a queue gives to others.
class WorkSource {
 public:
  /// `places` of places_of(). Throws: what WorkQueue's constructor throws.
  WorkSource(const TuneSession& session, const ShardChoice& worker,
             const std::vector<std::string>& identities, std::vector<std::size_t> places);

  /// Empty when nothing is left, or on the way of being done by others.
  std::optional<std::size_t> next(const std::function<bool()>& stop_requested);

  /// How many next() did not give, because it was to stop; of a queue it knows none.
  std::size_t left() const { return queue_ ? 0 : places_.size() - taken_; }

  /// The problem taken last needs no further work. A note tells when another worker does it again.
  void done();

  /// Gives back what is not done, for a process that ends without destructors.
  void give_back();

 private:
  const TuneSession& session_;
  std::vector<std::size_t> places_;
  std::size_t taken_ = 0;
  std::optional<WorkQueue> queue_;
};

}  // namespace swr::cli
