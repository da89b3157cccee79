// SPDX-License-Identifier: MIT
// Which problem this process tunes next: of its own share, or of a queue that it shares with
// others.
#pragma once

#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/tune_command.h"
#include "tuner/distribute/work_list.h"
#include "tuner/distribute/work_queue.h"
#include <swr/problem.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {

/// A share and who said so: "--shard", or the variables' names.
struct ShardChoice {
  Shard shard;
  std::string source = {};
  /// Of this process, for a queue.
  std::string name = worker_name();
};

/// `asked` is --shard: empty, auto or I/N. Where it is empty or auto, the launcher says who this
/// process is: the rank that mpirun, srun or another PMI launcher gave it, within the element of a
/// Slurm job array. Not part of a group, it is everything.
/// Throws: Error{invalid_argument} for values that make no sense, and for auto without a launcher.
ShardChoice choose_shard(const std::string& asked, const Environment& environment);

/// The session with the worker's own database, after a line on what its share is. With a queue and
/// no launcher, the database carries the worker's name. A replay stores only where it was told to.
/// `work` counts all pieces, `share` the worker's.
TuneSession as_worker(const TuneSession& session, const ShardChoice& choice, std::size_t share,
                      std::size_t work);

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

/// The GPU that the session asks for, the first of several.
GpuChoice first_gpu(const TuneSession& session);

/// Those that nothing stored answers yet, most asked first, on the GPU that the session asks for.
/// Throws: as read_missed_questions() and choose_gpu().
std::vector<Problem> missed_problems(const TuneSession& session);

/// Takes those out of the file that something stored answers now.
void forget_answered(const TuneSession& session, const GpuChoice& gpu);

}  // namespace swr::cli
