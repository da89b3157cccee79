// SPDX-License-Identifier: MIT
// The choice of the best stored variant, for the store and for programs that serve: every place (a
// problem on a device) with its variants ranked once, and an index to find the nearest place.
#pragma once

#include "core/recorded_space.h"
#include "db/problem_key.h"
#include "db/shape_tree.h"
#include <swr/lookup.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace swr {

/// What the choice needs to know of a stored result. The first three are indices into the records.
struct LookupRow {
  std::uint32_t problem = 0;
  std::uint32_t device = 0;
  std::uint32_t variant = 0;
  Provenance provenance = Provenance::measured;
  bool is_ok = false;
  long long result_id = 0;  ///< Grows with time.
  Merit merit;
  std::optional<long long> l2_misses;
};

/// Who won finals.
struct LookupDecision {
  long long winner_id = 0;
  long long last_result_id = 0;  ///< The newest result that took part.
};

/// Everything that takes part in a choice. Problems and variants differ from each other.
struct LookupRecords {
  std::vector<Problem> problems;
  std::vector<DeviceInfo> devices;
  std::vector<Variant> variants;
  std::vector<LookupRow> rows;
  std::vector<LookupDecision> decisions;
};

/// Answers that took a search or the closed form, for who asks the same again: a program that
/// serves asks a few thousand questions over and over, most of which nobody tuned exactly. Safe
/// from any thread. Questions are spread over shards with a lock each, so that threads seldom meet.
/// Holds a bounded number of answers: a full shard begins anew.
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

/// Immutable once built; safe from any thread.
class LookupTable {
 public:
  /// One variant of a place.
  struct Candidate {
    std::uint32_t variant = 0;
    std::uint32_t behind = 0;  ///< How many of the place come after it.
    double time_us = 0.0;
    long long l2_misses = -1;  ///< -1 when unknown.
    long long result_id = 0;
  };

  /// What answers a question.
  struct Hit {
    MatchLevel level = MatchLevel::exact;
    bool on_same_device = true;
    double distance = 0.0;
    const ProblemKey* problem = nullptr;
    Candidate candidate;
    const LookupTable* table = nullptr;  ///< Whose candidate it is.
  };

  /// Which problems answer for others: those of the very kind, whose kernels are the same, or those
  /// of near kinds too, whose variants are as good.
  enum class Kinds { own, near };

  explicit LookupTable(const LookupRecords& records);

  /// By the rules of docs/db_schema.md, from this table and from the one below it, whose places
  /// count where this one has measured nothing of the same problem and device. Requires: a valid
  /// problem.
  std::optional<Hit> find(const Problem& problem, const DeviceInfo& device,
                          const LookupTable* below = nullptr, Kinds kinds = Kinds::near) const;

  /// The same from this table alone, as an answer. Throws: Error{invalid_argument} as validate()
  /// and require_described().
  std::optional<Answer> stored(const Problem& problem, const DeviceInfo& device,
                               Kinds kinds = Kinds::near) const;

  /// The same, or what is modelled where nothing fits or where that is better by more than the
  /// closed form's error. What is not exactly measured is taken from `remembered`, or left there:
  /// answers of this table and of the one below it, and of no others. Throws: as stored().
  Answer best(const Problem& problem, const DeviceInfo& device, const LookupTable* below = nullptr,
              RememberedAnswers* remembered = nullptr) const;

  /// Ids of the best result of every problem and device, measured where there is one; by the order
  /// of the problems, then of the devices.
  std::vector<long long> winners() const;

  std::size_t size() const { return places_.size(); }

 private:
  static constexpr std::uint32_t kNoVariant = std::numeric_limits<std::uint32_t>::max();

  /// A problem on a device, with what answers when exactly this is asked: the first candidate that
  /// is legal for the problem on the device where it was recorded. One cache line.
  struct alignas(64) Place {
    ProblemKey problem;
    std::uint32_t variant = kNoVariant;
    std::uint32_t first = 0;  ///< Of its candidates, which stand together, best first.
    double time_us = 0.0;
    long long l2_misses = -1;
    long long result_id = 0;
  };
  static_assert(sizeof(Place) == 64);

  /// The shapes of one kind of problem, and the box that holds them: their hull.
  struct Kind {
    std::uint64_t key = 0;
    ShapePoint low;
    ShapePoint high;
    ShapeTree tree;

    bool reaches(const ShapePoint& shape, double octaves_beyond) const {
      for (int i = 0; i < ShapePoint::kDimensions; ++i) {
        if (shape.octaves[i] < low.octaves[i] - octaves_beyond ||
            shape.octaves[i] > high.octaves[i] + octaves_beyond) {
          return false;
        }
      }
      return true;
    }
  };

  /// The places of one provenance on one device.
  struct Pool {
    std::uint32_t first = 0;  ///< Of its places.
    std::uint32_t count = 0;
    std::vector<Kind> kinds;
    /// Open addressing by the problem's hash: index of a place plus 1, or 0.
    std::vector<std::uint32_t> slots;
  };

  /// Rows of one device, whatever they call it.
  struct Group {
    std::vector<DeviceInfo> devices;
    std::array<Pool, 2> pools;  ///< By provenance.
    /// Measured, and nothing that was tried works.
    std::set<ProblemKey> failed;

    const Pool& pool(Provenance provenance) const {
      return pools[static_cast<std::size_t>(provenance)];
    }
  };

  struct Builder;
  struct Question;
  struct Nearest;
  /// Where a question goes: tables with the group of the question's device, the upper one first.
  struct Layer {
    const LookupTable* table = nullptr;
    const Group* group = nullptr;
  };
  struct Layers;

  bool has_measured(const Group* group, const ProblemKey& problem) const;
  const Candidate* first_legal(const Place& place, const Question& question) const;
  const Place* place_of(const Pool& pool, const ProblemKey& problem) const;
  const Group* group_of(const DeviceInfo& device) const;
  std::optional<Hit> exact(const Group& group, Provenance provenance,
                           const Question& question) const;
  std::optional<Hit> exact_measured(const Group* group, const Question& question) const;
  static std::optional<Hit> find_beyond_exact(const Layers& layers, const Question& question);
  template <typename Accepts>
  void consider_all(const Pool& pool, double device_distance, const Question& question,
                    Nearest& nearest, Accepts&& accepts) const;
  template <typename ConsiderPools>
  bool find_nearest(const Question& question, Nearest& nearest, ConsiderPools&& consider) const;
  Answer answer_of(const Hit& hit, const Problem& problem) const;
  Answer near_or_modelled(const Problem& problem, const DeviceInfo& device,
                          const LookupTable* below) const;
  std::optional<Hit> nearest_on(const Group& group, Provenance provenance, const Question& question,
                                const Layer& above) const;
  std::optional<Hit> nearest_of_arch(Provenance provenance, const Question& question,
                                     const LookupTable* above) const;

  std::vector<Variant> variants_;
  std::vector<Group> groups_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> problems_;  ///< By place, in the records.
  std::vector<Candidate> candidates_;
};

// Measured results that come with swr: shipped/*.spaces, compiled into this library. They answer
// below what a database holds. scripts/measure_shipped measures them anew.

/// Every recording that comes with swr.
const std::vector<RecordedSpace>& shipped_spaces();

/// What of recordings may answer: of each the variants near its fastest, without ids.
LookupRecords lookup_records_of(std::span<const RecordedSpace> spaces);

/// The recordings that come with swr as a table; made once, on first use, by any thread.
const LookupTable& shipped_table();

/// True when they were taken in this setting: a warm L2 and the built-in templates.
bool are_shipped_in(const Setting& setting);

}  // namespace swr
