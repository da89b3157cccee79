// SPDX-License-Identifier: MIT
#include "db/lookup_table.h"

#include "core/operation.h"
#include <swr/constraints.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace swr {
namespace {

/// All that may decide an answer.
auto numbers(const DeviceInfo& device) {
  return std::tie(device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s,
                  device.mig, device.smem_per_cta_bytes, device.smem_per_sm_bytes,
                  device.smem_reserved_per_cta_bytes, device.registers_per_sm,
                  device.max_threads_per_sm, device.max_ctas_per_sm);
}

constexpr std::array kProvenances{Provenance::measured, Provenance::predicted};

/// A problem's own kind and Operation::near_kind's.
constexpr std::size_t kMostKinds = 4;
/// How far a near kind is: the same shape in the other 16-bit type is nearer than a shape of the
/// same type with a length 1.2 times as long.
constexpr double kSquaredKindOctaves = 0.25 * 0.25;

/// Everything about a device that a constraint may look at, beyond what same_device() compares.
auto limits(const DeviceInfo& device) {
  return std::tie(device.smem_per_cta_bytes, device.smem_per_sm_bytes,
                  device.smem_reserved_per_cta_bytes, device.registers_per_sm,
                  device.max_threads_per_sm, device.max_ctas_per_sm);
}

bool is_same_as_any(const std::vector<DeviceInfo>& devices, const DeviceInfo& device) {
  return std::ranges::any_of(devices,
                             [&](const DeviceInfo& stored) { return same_device(stored, device); });
}

/// Position of each variant when they are ordered by key.
std::vector<std::uint32_t> key_order(const std::vector<Variant>& variants) {
  std::vector<std::string> keys(variants.size());
  std::ranges::transform(variants, keys.begin(), [](const Variant& v) { return to_key(v); });
  std::vector<std::uint32_t> by_key(variants.size());
  std::iota(by_key.begin(), by_key.end(), 0U);
  std::ranges::sort(by_key, [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
  std::vector<std::uint32_t> order(variants.size());
  for (std::size_t position = 0; position < by_key.size(); ++position) {
    order[by_key[position]] = static_cast<std::uint32_t>(position);
  }
  return order;
}

/// The winner of a decision at a place.
struct Decided {
  const LookupRow* row = nullptr;
  long long last_result_id = 0;
};

/// A decided winner stands unless it no longer answers, or something that it did not meet is so
/// much faster that noise does not explain it: what was measured since, the winner of another
/// decision, any other prediction.
bool stands(const Decided& decided, const std::vector<Decided>& all,
            const std::vector<const LookupRow*>& answers) {
  constexpr double kBeyondNoise = 0.97;
  const auto is_winner = [&](const LookupRow* row) { return row->variant == decided.row->variant; };
  const auto is_comparable = [&](const LookupRow* row) {
    return row->result_id > decided.last_result_id || row->provenance == Provenance::predicted ||
           std::ranges::find(all, row, &Decided::row) != all.end();
  };
  const auto beats = [&](const LookupRow* row) {
    return !is_winner(row) && row->merit.time_us < kBeyondNoise * decided.row->merit.time_us &&
           is_comparable(row);
  };
  return std::ranges::any_of(answers, is_winner) && std::ranges::none_of(answers, beats);
}

struct NearAnswer {
  const Variant& variant;
  double octaves;  ///< From the problem asked.
};

/// True when a near answer is farther off than is trusted, or when the closed form calls it worse
/// than its own choice by more than its error.
bool loses(const NearAnswer& near, const Variant& modelled, const Problem& problem,
           const DeviceInfo& device) {
  if (near.octaves > problem.operation().trusted_octaves(problem, device)) {
    return true;
  }
  // Four times what it loses in the mean on recorded spaces (experiments/right_answers).
  constexpr double kBeyondError = 1.15;
  const auto of_near = problem.operation().quick_time_us(problem, near.variant, device);
  const auto of_modelled = problem.operation().quick_time_us(problem, modelled, device);
  return of_near && of_modelled && *of_near > kBeyondError * *of_modelled;
}

}  // namespace

struct LookupTable::Question {
  const Problem& problem;
  ProblemKey key;
  const DeviceInfo& device;
  /// Its own kind and those that are near it; only the first until find_kinds().
  std::array<std::uint64_t, kMostKinds> kinds{key.kind};
  std::size_t kind_count = 1;
  double octaves_beyond_hull = std::numeric_limits<double>::infinity();

  void find_kinds() {
    const Operation& operation = problem.operation();
    for (kind_count = 1; kind_count < kMostKinds; ++kind_count) {
      const auto near = operation.near_kind(problem, static_cast<int>(kind_count) - 1);
      if (!near) {
        break;
      }
      kinds[kind_count] = problem_key(*near).kind;
    }
  }
};

/// The table that is asked, and the one below it where there is one.
struct LookupTable::Layers {
  Layer own;
  Layer below;
};

/// The nearest place found so far.
struct LookupTable::Nearest {
  ShapePoint from;
  double squared = std::numeric_limits<double>::infinity();
  double device_distance = 0.0;
  std::optional<std::size_t> place;
  const Candidate* candidate = nullptr;
};

/// Fills a table.
struct LookupTable::Builder {
  LookupTable& table;
  const LookupRecords& records;
  std::vector<std::uint32_t> key_order;
  std::vector<std::uint32_t> group_of_device;
  std::unordered_map<long long, long long> last_of_winner;
  using Rows = std::vector<const LookupRow*>;
  // Of the place that is being added.
  Rows answers;
  std::vector<Decided> decided;

  void build() {
    table.variants_ = records.variants;
    key_order = swr::key_order(records.variants);
    for (const LookupDecision& decision : records.decisions) {
      last_of_winner[decision.winner_id] = decision.last_result_id;
    }
    group_devices();
    add_places(sorted_rows());
    for (Group& group : table.groups_) {
      for (Pool& pool : group.pools) {
        index(pool);
      }
    }
  }

  void group_devices() {
    for (const DeviceInfo& device : records.devices) {
      const auto known = std::ranges::find_if(table.groups_, [&](const Group& group) {
        return same_device(group.devices.front(), device);
      });
      Group& group = known == table.groups_.end() ? table.groups_.emplace_back() : *known;
      group.devices.push_back(device);
      group_of_device.push_back(static_cast<std::uint32_t>(&group - table.groups_.data()));
    }
  }

  /// Places of one pool stand together.
  std::size_t pool_of(const LookupRow& row) const {
    return kProvenances.size() * group_of_device[row.device] +
           static_cast<std::size_t>(row.provenance);
  }

  bool share_place(const LookupRow& a, const LookupRow& b) const {
    return a.problem == b.problem && pool_of(a) == pool_of(b);
  }

  /// By pool, then problem.
  Rows sorted_rows() const {
    Rows rows;
    rows.reserve(records.rows.size());
    for (const LookupRow& row : records.rows) {
      rows.push_back(&row);
    }
    rows =
        sorted_by(rows, records.problems.size(), [](const LookupRow& row) { return row.problem; });
    return sorted_by(rows, kProvenances.size() * table.groups_.size(),
                     [this](const LookupRow& row) { return pool_of(row); });
  }

  /// By a key that is less than `keys`; rows with equal keys keep their order.
  template <typename Key>
  static Rows sorted_by(const Rows& rows, std::size_t keys, Key&& key) {
    std::vector<std::size_t> ends(keys + 1);
    for (const LookupRow* row : rows) {
      ++ends[key(*row) + 1];
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    Rows sorted(rows.size());
    for (const LookupRow* row : rows) {
      sorted[ends[key(*row)]++] = row;
    }
    return sorted;
  }

  void add_places(Rows rows) {
    for (auto first = rows.begin(); first != rows.end();) {
      const auto last = std::find_if_not(
          first, rows.end(), [&](const LookupRow* row) { return share_place(**first, *row); });
      add_place(std::span(first, last));
      first = last;
    }
  }

  void add_place(std::span<const LookupRow*> rows) {
    std::ranges::sort(rows, [](const LookupRow* a, const LookupRow* b) {
      return std::tie(a->variant, a->result_id) < std::tie(b->variant, b->result_id);
    });
    answers.clear();
    decided.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const LookupRow* const row = rows[i];
      const bool is_newest = i + 1 == rows.size() || rows[i + 1]->variant != row->variant;
      if (is_newest && row->is_ok) {
        answers.push_back(row);
      }
      const auto decision = last_of_winner.find(row->result_id);
      if (decision != last_of_winner.end()) {
        decided.push_back({row, decision->second});
      }
    }
    if (!answers.empty()) {
      rank();
      append(*rows.front());
    } else if (rows.front()->provenance == Provenance::measured) {
      table.groups_[group_of_device[rows.front()->device]].failed.insert(
          problem_key(records.problems[rows.front()->problem]));
    }
  }

  void rank() {
    std::ranges::sort(decided, std::ranges::greater{}, &Decided::last_result_id);
    const auto winner = std::ranges::find_if(
        decided, [this](const Decided& one) { return stands(one, decided, answers); });
    std::ranges::sort(answers, [this](const LookupRow* a, const LookupRow* b) {
      return a->merit == b->merit ? key_order[a->variant] < key_order[b->variant]
                                  : a->merit < b->merit;
    });
    if (winner != decided.end()) {
      std::erase_if(answers,
                    [&](const LookupRow* row) { return row->variant == winner->row->variant; });
      answers.insert(answers.begin(), winner->row);
    }
  }

  /// The place of a row, with the ranked answers.
  void append(const LookupRow& row) {
    Group& group = table.groups_[group_of_device[row.device]];
    Pool& pool = group.pools[static_cast<std::size_t>(row.provenance)];
    pool.first = pool.count == 0 ? static_cast<std::uint32_t>(table.places_.size()) : pool.first;
    ++pool.count;
    const Problem& problem = records.problems[row.problem];
    const Question own{problem, problem_key(problem), group.devices.front()};
    Place& place = table.places_.emplace_back();
    place.problem = own.key;
    place.first = static_cast<std::uint32_t>(table.candidates_.size());
    table.problems_.push_back(row.problem);
    auto behind = static_cast<std::uint32_t>(answers.size());
    for (const LookupRow* answer : answers) {
      table.candidates_.push_back({answer->variant, --behind, answer->merit.time_us,
                                   answer->l2_misses.value_or(-1), answer->result_id});
    }
    if (const Candidate* const best = table.first_legal(place, own)) {
      place.variant = best->variant;
      place.time_us = best->time_us;
      place.l2_misses = best->l2_misses;
      place.result_id = best->result_id;
    }
  }

  static std::pair<ShapePoint, ShapePoint> hull_of(const std::vector<ShapeTree::Point>& points) {
    ShapePoint low = points.front().at;
    ShapePoint high = low;
    for (const ShapeTree::Point& point : points) {
      for (int i = 0; i < ShapePoint::kDimensions; ++i) {
        low.octaves[i] = std::min(low.octaves[i], point.at.octaves[i]);
        high.octaves[i] = std::max(high.octaves[i], point.at.octaves[i]);
      }
    }
    return {low, high};
  }

  void index(Pool& pool) const {
    pool.slots.assign(std::bit_ceil(2 * std::size_t{pool.count} + 1), 0);
    std::unordered_map<std::uint64_t, std::vector<ShapeTree::Point>> points;
    for (std::uint32_t i = pool.first; i < pool.first + pool.count; ++i) {
      const ProblemKey& problem = table.places_[i].problem;
      points[problem.kind].push_back({.at = shape_point(problem), .item = i});
      std::size_t slot = hash_of(problem) & (pool.slots.size() - 1);
      while (pool.slots[slot] != 0) {
        slot = (slot + 1) & (pool.slots.size() - 1);
      }
      pool.slots[slot] = i + 1;
    }
    for (auto& [key, of_kind] : points) {
      const auto [low, high] = hull_of(of_kind);
      pool.kinds.push_back({key, low, high, ShapeTree(std::move(of_kind))});
    }
    std::ranges::sort(pool.kinds, {}, &Kind::key);
  }
};

LookupTable::LookupTable(const LookupRecords& records) {
  Builder{.table = *this,
          .records = records,
          .key_order = {},
          .group_of_device = {},
          .last_of_winner = {},
          .answers = {},
          .decided = {}}
      .build();
}

const LookupTable::Candidate* LookupTable::first_legal(const Place& place,
                                                       const Question& question) const {
  for (const Candidate* candidate = candidates_.data() + place.first;; ++candidate) {
    if (!check_constraints(question.problem, variants_[candidate->variant], question.device)) {
      return candidate;
    }
    if (candidate->behind == 0) {
      return nullptr;
    }
  }
}

const LookupTable::Place* LookupTable::place_of(const Pool& pool, const ProblemKey& problem) const {
  const std::size_t mask = pool.slots.size() - 1;
  for (std::size_t slot = hash_of(problem) & mask; pool.slots[slot] != 0;
       slot = (slot + 1) & mask) {
    const Place& place = places_[pool.slots[slot] - 1];
    if (place.problem == problem) {
      return &place;
    }
  }
  return nullptr;
}

std::optional<LookupTable::Hit> LookupTable::exact(const Group& group, Provenance provenance,
                                                   const Question& question) const {
  const Place* const place = place_of(group.pool(provenance), question.key);
  if (place == nullptr) {
    return std::nullopt;
  }
  Hit hit{MatchLevel::exact,
          true,
          0.0,
          &place->problem,
          {.variant = place->variant,
           .time_us = place->time_us,
           .l2_misses = place->l2_misses,
           .result_id = place->result_id},
          this};
  if (limits(question.device) != limits(group.devices.front())) {
    const Candidate* const legal = first_legal(*place, question);
    hit.candidate = legal == nullptr ? Candidate{.variant = kNoVariant} : *legal;
  }
  return hit.candidate.variant == kNoVariant ? std::nullopt : std::optional(hit);
}

std::optional<LookupTable::Hit> LookupTable::exact_measured(const Group* group,
                                                            const Question& question) const {
  return group == nullptr ? std::nullopt : exact(*group, Provenance::measured, question);
}

bool LookupTable::has_measured(const Group* group, const ProblemKey& problem) const {
  return group != nullptr && (place_of(group->pool(Provenance::measured), problem) != nullptr ||
                              group->failed.contains(problem));
}

/// Looks for a nearer place of the pool, among the question's kinds. Of equally near ones the more
/// similar device and then the smaller problem counts.
template <typename Accepts>
void LookupTable::consider_all(const Pool& pool, double device_distance, const Question& question,
                               Nearest& nearest, Accepts&& accepts) const {
  for (std::size_t i = 0; i < question.kind_count; ++i) {
    const std::uint64_t asked = question.kinds[i];
    const double of_kind = i == 0 ? 0.0 : kSquaredKindOctaves;
    double bound = nearest.squared - of_kind;
    const auto kind = std::ranges::lower_bound(pool.kinds, asked, {}, &Kind::key);
    if (kind == pool.kinds.end() || kind->key != asked || bound < 0 ||
        !kind->reaches(nearest.from, question.octaves_beyond_hull)) {
      continue;
    }
    kind->tree.visit_near(nearest.from, bound, [&](std::uint32_t item, double shape_squared) {
      const double squared = shape_squared + of_kind;
      if (squared >= nearest.squared && nearest.place &&
          std::tie(nearest.squared, nearest.device_distance, places_[*nearest.place].problem) <=
              std::tie(squared, device_distance, places_[item].problem)) {
        return;
      }
      if (accepts(item)) {
        nearest.squared = squared;
        nearest.device_distance = device_distance;
        nearest.place = item;
        bound = shape_squared;
      }
    });
  }
}

/// The nearest place with a legal variant. Usually the nearest of all has one, so legality is
/// looked at only then, and during the search when it is needed.
template <typename ConsiderPools>
bool LookupTable::find_nearest(const Question& question, Nearest& nearest,
                               ConsiderPools&& consider) const {
  nearest.from = shape_point(question.key);
  consider(nearest, [](std::uint32_t) { return true; });
  if (!nearest.place) {
    return false;
  }
  nearest.candidate = first_legal(places_[*nearest.place], question);
  if (nearest.candidate == nullptr) {
    nearest = {.from = nearest.from};
    consider(nearest, [&](std::uint32_t item) {
      const Candidate* const legal = first_legal(places_[item], question);
      nearest.candidate = legal == nullptr ? nearest.candidate : legal;
      return legal != nullptr;
    });
  }
  return nearest.candidate != nullptr;
}

/// `above` has the table over this one, and the group of the same device there.
std::optional<LookupTable::Hit> LookupTable::nearest_on(const Group& group, Provenance provenance,
                                                        const Question& question,
                                                        const Layer& above) const {
  Nearest nearest;
  const auto consider = [&](Nearest& found, auto&& accepts) {
    consider_all(group.pool(provenance), 0.0, question, found, [&](std::uint32_t item) {
      const bool is_covered =
          above.table != nullptr && above.table->has_measured(above.group, places_[item].problem);
      return !is_covered && accepts(item);
    });
  };
  if (!find_nearest(question, nearest, consider)) {
    return std::nullopt;
  }
  return Hit{MatchLevel::nearest,        true,
             std::sqrt(nearest.squared), &places_[*nearest.place].problem,
             *nearest.candidate,         this};
}

std::optional<LookupTable::Hit> LookupTable::nearest_of_arch(Provenance provenance,
                                                             const Question& question,
                                                             const LookupTable* above) const {
  Nearest nearest;
  const auto consider = [&](Nearest& found, auto&& accepts) {
    for (const Group& group : groups_) {
      const DeviceInfo& device = group.devices.front();
      if (device.sm_arch != question.device.sm_arch) {
        continue;
      }
      const Group* const covering = above == nullptr ? nullptr : above->group_of(device);
      consider_all(
          group.pool(provenance), device_distance(device, question.device), question, found,
          [&](std::uint32_t item) {
            return !(covering != nullptr && above->has_measured(covering, places_[item].problem)) &&
                   accepts(item);
          });
    }
  };
  if (!find_nearest(question, nearest, consider)) {
    return std::nullopt;
  }
  return Hit{MatchLevel::same_arch,      false,
             std::sqrt(nearest.squared), &places_[*nearest.place].problem,
             *nearest.candidate,         this};
}

const LookupTable::Group* LookupTable::group_of(const DeviceInfo& device) const {
  for (const Group& group : groups_) {
    if (is_same_as_any(group.devices, device)) {
      return &group;
    }
  }
  return nullptr;
}

/// Requires: the question itself is neither measured nor predicted in the groups of its device.
std::optional<LookupTable::Hit> LookupTable::find_beyond_exact(const Layers& layers,
                                                               const Question& question) {
  const auto of_layer = [&](const Layer& layer, bool on_same_device, Provenance provenance,
                            const Layer& above) -> std::optional<Hit> {
    if (layer.table == nullptr || (on_same_device && layer.group == nullptr)) {
      return std::nullopt;
    }
    if (!on_same_device) {
      return layer.table->nearest_of_arch(provenance, question, above.table);
    }
    return layer.table->nearest_on(*layer.group, provenance, question, above);
  };
  for (const bool on_same_device : {true, false}) {
    for (const Provenance provenance : kProvenances) {
      auto hit = of_layer(layers.own, on_same_device, provenance, {});
      const auto below = of_layer(layers.below, on_same_device, provenance, layers.own);
      if (below && (!hit || below->distance < hit->distance)) {
        hit = below;
      }
      if (hit && provenance == Provenance::predicted) {
        hit->level = MatchLevel::predicted;
      }
      if (hit) {
        return hit;
      }
    }
  }
  return std::nullopt;
}

std::optional<LookupTable::Hit> LookupTable::find(const Problem& problem, const DeviceInfo& device,
                                                  const LookupTable* below, Kinds kinds) const {
  Question question{problem, problem_key(problem), device};
  const Group* const group = group_of(device);
  if (const auto hit = exact_measured(group, question)) {
    return hit;
  }
  Layers layers{.own = {this, group}, .below = {}};
  if (below != nullptr) {
    layers.below = {below, below->group_of(device)};
    if (!has_measured(group, question.key)) {
      if (const auto hit = below->exact_measured(layers.below.group, question)) {
        return hit;
      }
    }
  }
  // A prediction for this very problem answers before measurements of its neighbours: whoever tuned
  // for an absent GPU gets the variant that was stored and is exported.
  for (const Layer& layer : {layers.own, layers.below}) {
    if (layer.group != nullptr) {
      if (auto hit = layer.table->exact(*layer.group, Provenance::predicted, question)) {
        hit->level = MatchLevel::predicted;
        return hit;
      }
    }
  }
  if (kinds == Kinds::near) {
    question.find_kinds();
  }
  question.octaves_beyond_hull = problem.operation().octaves_beyond_hull();
  return find_beyond_exact(layers, question);
}

/// Members are made in place: setting each twice would cost a tenth of an exact answer.
Answer LookupTable::answer_of(const Hit& hit, const Problem& problem) const {
  const Candidate& candidate = hit.candidate;
  const bool is_same_shape = !(hit.distance > 0);
  Answer answer{.variant = hit.table->variants_[candidate.variant],
                .level = hit.level,
                .on_same_device = hit.on_same_device,
                .distance = hit.distance,
                .time_us = candidate.time_us,
                .l2_misses = std::nullopt,
                .stored_problem = is_same_shape ? problem : problem_of(*hit.problem),
                .result_id = candidate.result_id,
                .shipped = hit.table != this};
  if (!is_same_shape) {
    const double times = flop_count(problem) / flop_count(answer.stored_problem);
    // A spec need not say how many operations its kernel has.
    answer.time_us =
        times > 0 && std::isfinite(times) ? std::optional(*answer.time_us * times) : std::nullopt;
  } else if (hit.on_same_device && candidate.l2_misses >= 0) {
    answer.l2_misses = candidate.l2_misses;
  }
  return answer;
}

std::optional<Answer> LookupTable::stored(const Problem& problem, const DeviceInfo& device,
                                          Kinds kinds) const {
  validate(problem);
  require_described(device);
  const auto hit = find(problem, device, nullptr, kinds);
  return hit ? std::optional(answer_of(*hit, problem)) : std::nullopt;
}

Answer LookupTable::best(const Problem& problem, const DeviceInfo& device, const LookupTable* below,
                         RememberedAnswers* remembered) const {
  // What is stored or remembered is valid, so the usual question needs no validation.
  const Question question{problem, problem_key(problem), device};
  if (const auto hit = exact_measured(group_of(device), question)) {
    return answer_of(*hit, problem);
  }
  if (remembered != nullptr) {
    if (const auto answer = remembered->find(question.key, device)) {
      return *answer;
    }
  }
  validate(problem);
  require_described(device);
  const Answer answer = near_or_modelled(problem, device, below);
  if (remembered != nullptr) {
    remembered->remember(question.key, device, answer);
  }
  return answer;
}

/// Requires: a valid problem and a device that is described.
Answer LookupTable::near_or_modelled(const Problem& problem, const DeviceInfo& device,
                                     const LookupTable* below) const {
  const auto hit = find(problem, device, below);
  const bool is_near = hit && (hit->distance > 0 || !hit->on_same_device);
  if (hit && !is_near) {
    return answer_of(*hit, problem);
  }
  const auto modelled = problem.operation().modelled_variant(problem, device);
  const auto loses_to = [&](const Variant& chosen) {
    return loses({hit->table->variants_[hit->candidate.variant], hit->distance}, chosen, problem,
                 device);
  };
  if (hit && !(modelled && loses_to(*modelled))) {
    return answer_of(*hit, problem);
  }
  Answer answer;
  answer.stored_problem = problem;
  answer.level = modelled ? MatchLevel::modelled : MatchLevel::default_only;
  answer.variant = modelled ? *modelled : default_variant(problem, device);
  answer.time_us =
      modelled ? problem.operation().quick_time_us(problem, *modelled, device) : std::nullopt;
  return answer;
}

std::vector<long long> LookupTable::winners() const {
  struct Winner {
    std::tuple<std::uint32_t, std::size_t> place;  ///< Problem and device.
    Provenance provenance;
    long long result_id;
  };
  std::vector<Winner> winners;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const Provenance provenance : kProvenances) {
      const Pool& pool = groups_[g].pool(provenance);
      for (std::uint32_t i = pool.first; i < pool.first + pool.count; ++i) {
        if (places_[i].variant != kNoVariant) {
          winners.push_back({{problems_[i], g}, provenance, places_[i].result_id});
        }
      }
    }
  }
  std::ranges::sort(winners, [](const Winner& a, const Winner& b) {
    return std::tie(a.place, a.provenance) < std::tie(b.place, b.provenance);
  });
  const auto at_one_place = [](const Winner& a, const Winner& b) { return a.place == b.place; };
  winners.erase(std::unique(winners.begin(), winners.end(), at_one_place), winners.end());
  std::vector<long long> ids;
  std::ranges::transform(winners, std::back_inserter(ids), &Winner::result_id);
  return ids;
}

RememberedAnswers::Shard& RememberedAnswers::shard_of(const ProblemKey& problem) {
  // The low bits choose the place in a shard's map.
  constexpr unsigned kHighBits = 40;
  return shards_[(hash_of(problem) >> kHighBits) % kShards];
}

std::optional<Answer> RememberedAnswers::find(const ProblemKey& problem, const DeviceInfo& device) {
  Shard& shard = shard_of(problem);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.answers.find(problem);
  if (found == shard.answers.end() || numbers(found->second.device) != numbers(device)) {
    return std::nullopt;
  }
  return found->second.answer;
}

void RememberedAnswers::remember(const ProblemKey& problem, const DeviceInfo& device,
                                 const Answer& answer) {
  Remembered remembered{device, answer};
  remembered.device.name.clear();
  Shard& shard = shard_of(problem);
  const std::lock_guard lock(shard.mutex);
  if (shard.answers.size() >= kMostOfAShard) {
    shard.answers.clear();
  }
  shard.answers.insert_or_assign(problem, std::move(remembered));
}

}  // namespace swr
