// SPDX-License-Identifier: MIT
// Carries out a study through the tuner: what a database does not know yet is tuned and stored, so
// that an interrupted study goes on.
#pragma once

#include "experiments/studies/study.h"
#include "tuner/evaluator.h"
#include "tuner/run/finals.h"
#include "tuner/run/tuner.h"
#include <swr/store.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace swr {

/// What a database holds of one provenance on a device, by problem and variant; read once per
/// problem. The store must outlive it.
class StoredPoints {
 public:
  StoredPoints(const Store& store, DeviceInfo device, Provenance provenance, Setting setting);

  std::optional<VariantResult> find(const StudyPoint& point);
  void forget(const Problem& problem) { results_.erase(problem); }

 private:
  using OfProblem = std::map<Variant, VariantResult>;

  OfProblem read(const Problem& problem) const;

  const Store& store_;
  DeviceInfo device_;
  Provenance provenance_;
  Setting setting_;
  std::map<Problem, OfProblem> results_;
};

/// Points of one problem that are tuned together: those of a sweep differ in the swept axis alone.
struct StudyGroup {
  std::vector<const StudyPoint*> points;
  bool is_sweep = false;

  /// In shared rounds, where they are measured.
  bool meets() const { return is_sweep && points.size() > 1; }
};

/// The groups of a study, each variant of a problem once; those of a problem follow each other.
std::vector<StudyGroup> study_groups(const Study& study);

struct StudyTally {
  std::size_t tuned = 0;
  std::size_t known = 0;
  std::size_t illegal = 0;  ///< On this GPU.
  bool interrupted = false;
};

/// With what a study is carried out.
struct StudyTools {
  Evaluator& evaluator;
  const Generator& generator;
  Store& store;
  Provenance provenance = Provenance::measured;
  long long run_id = 0;  ///< From Store::begin_run.
  bool force = false;    ///< Tunes also what is known.
  std::function<bool()> stop_requested = [] { return false; };
  /// Told of every group that was tuned.
  std::function<void(const StudyGroup&)> done = [](const StudyGroup&) {};
};

/// Tunes the groups of which a point is not known; what is stored stays when it is interrupted.
/// Throws: as tune().
StudyTally run_study(const Study& study, StoredPoints& stored, const StudyTools& tools);

}  // namespace swr
