// SPDX-License-Identifier: MIT
// Answers that took a search or the closed form, for who asks the same again: a program that serves
// asks a few thousand questions over and over, most of which nobody tuned exactly.
#pragma once

#include "db/problem_key.h"
#include <swr/device.h>
#include <swr/lookup.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace swr {

/// Safe from any thread. Questions are spread over shards with a lock each, so that threads seldom
/// meet. Holds a bounded number of answers: a full shard begins anew.
class RememberedAnswers {
 public:
  std::optional<Answer> find(const ProblemKey& problem, const DeviceInfo& device);
  void remember(const ProblemKey& problem, const DeviceInfo& device, const Answer& answer);

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kMostOfAShard = 1024;  ///< About half a MiB.

  struct Remembered {
    DeviceInfo device;  ///< Without its name, which decides nothing.
    Answer answer;
  };
  struct Hash {
    std::size_t operator()(const ProblemKey& key) const { return hash_of(key); }
  };
  /// One cache line and more, so that the locks of two do not meet.
  struct alignas(64) Shard {
    std::mutex mutex;
    /// A problem is asked for one device at a time: the newest counts.
    std::unordered_map<ProblemKey, Remembered, Hash> answers;
  };

  Shard& shard_of(const ProblemKey& problem);

  std::array<Shard, kShards> shards_;
};

}  // namespace swr
