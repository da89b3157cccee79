// SPDX-License-Identifier: MIT
// How far the workers of a shared folder are: a queue (tuner/distribute/work_queue.h) is read,
// never changed.
#pragma once

#include "core/json.h"

#include <filesystem>
#include <vector>

namespace swr {

/// {"pieces": N, "open": N, "done": N, "leased": [{"piece", "worker", "silent_s"}]}; null where the
/// folder has no queue. `silent_s` is for how long a worker gave no sign, by the clock of this
/// host.
Json queue_json(const std::filesystem::path& folder);

/// Files of events in the folder, in the order of their names.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

}  // namespace swr
