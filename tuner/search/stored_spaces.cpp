// SPDX-License-Identifier: MIT
#include "tuner/search/stored_spaces.h"

#include "core/recorded_space.h"
#include <swr/error.h>

#include <set>
#include <utility>

namespace swr {
namespace {

RecordedSpace space_of(const Store& store, const StoredResult& winner, const Setting& setting) {
  const RunInfo run = store.run_of(winner.id);
  RecordedSpace space{.problem = winner.problem,
                      .device = winner.device,
                      .origin = {.swr_version = run.swr_version,
                                 .templates_digest = run.templates_digest,
                                 .overlay_digest = run.overlay_digest,
                                 .nvrtc_version = run.nvrtc_version,
                                 .driver_version = run.driver_version,
                                 .l2_state = run.l2_state},
                      .results = {}};
  for (StoredResult& stored : store.results(winner.problem, winner.device, setting)) {
    if (stored.result.provenance() == winner.result.provenance()) {
      space.results.push_back(std::move(stored.result));
    }
  }
  return space;
}

}  // namespace

std::vector<RecordedSpace> stored_spaces(const Store& store) {
  std::vector<RecordedSpace> spaces;
  std::set<long long> seen;  // A prediction belongs to both L2 states.
  for (const Setting& setting : store.settings()) {
    for (const StoredResult& winner : store.winners(setting)) {
      if (seen.insert(winner.id).second) {
        spaces.push_back(space_of(store, winner, setting));
      }
    }
  }
  return spaces;
}

std::vector<RecordedSpace> load_spaces(const std::filesystem::path& path) {
  if (path.extension() == ".json" || path.extension() == kRecordedSpacesExtension) {
    return read_recorded_spaces(path);
  }
  auto spaces = stored_spaces(Store(path, Store::Mode::read_only));
  if (spaces.empty()) {
    throw Error(ErrorCode::nothing_stored,
                "database " + path.string() + " holds no successful result; tune a problem first");
  }
  return spaces;
}

}  // namespace swr
