// SPDX-License-Identifier: MIT
// From --shard, or from the variables of a launcher, to a part of the work.
#pragma once

#include "tuner/cli/tune_command.h"
#include "tuner/distribute/shard.h"
#include "tuner/distribute/work_queue.h"

#include <cstddef>
#include <string>

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

}  // namespace swr::cli
