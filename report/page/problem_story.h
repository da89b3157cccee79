// SPDX-License-Identifier: MIT
// What a page tells of one problem on one device: its variants with all that was measured of them,
// the decision between them and what answers a query. Read from the rows of a database.
#pragma once

#include "core/json.h"
#include "db/history.h"
#include "model/profile/gpu_profile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace swr::page {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// All that is known of one variant in a field.
struct VariantStory {
  const RecordedResult* newest = nullptr;
  const RecordedResult* screening = nullptr;  ///< Or the prediction; absent for finals alone.
  const RecordedFinalist* finalist = nullptr;

  const VariantResult& result() const { return newest->result; }
  /// Ranked by: the screening's time, under which all variants were measured alike.
  double time_us() const { return (screening != nullptr ? screening : newest)->result.time_us(); }
  bool ok() const { return result().state == ResultState::ok; }
};

/// Results of one problem on one device that may be compared: one provenance, one state of L2.
struct ProblemStory {
  Problem problem;
  DeviceInfo device;
  GpuProfile profile;
  Provenance provenance = Provenance::measured;
  std::string l2_state;
  std::string overlay_digest;
  std::set<long long> run_ids;
  std::vector<VariantStory> stories;  ///< The best first, failures last.
  const RecordedDecision* decision = nullptr;
  std::vector<std::pair<std::string, double>> peers;  ///< Store::peers.
  std::map<std::string, Variant> winners_by;          ///< Of objectives beside time.
  long long results = 0;                              ///< Rows, finals and repetitions included.

  bool has_best() const { return !stories.empty() && stories.front().ok(); }
  const VariantStory& best() const { return stories.front(); }
  long long succeeded() const { return std::ranges::count_if(stories, &VariantStory::ok); }
};

/// Measured in rounds that finalists share.
bool is_final(const VariantResult& result);

/// Of the best, as a share; 0 where it was measured. Requires: there is a best.
double error_of_best(const ProblemStory& field);

/// The value of an axis, or the order of the traversal; null where the operation lacks it.
Json axis_json(const Variant& variant, std::string_view name);
Json order_json(const Variant& variant);

/// Of every place in the history. `winners` holds the ids of the results that answer a query.
std::vector<ProblemStory> fields_of(const History& history, const std::set<long long>& winners);

}  // namespace swr::page
