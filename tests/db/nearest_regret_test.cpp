// SPDX-License-Identifier: MIT
// The nearest rule judged on recorded spaces: each is left out in turn, and the others answer for
// it. experiments/runtime publishes the table, which this program prints.
#include "core/recorded_space.h"
#include "db/lookup_table.h"
#include "tests/db/fixtures.h"
#include <swr/attention_variant.h>
#include <swr/constraints.h>

#include <algorithm>
#include <iomanip>
#include <iostream>

namespace swr {
namespace {

/// Every result but those of the space that is left out.
LookupRecords records_without(const std::vector<RecordedSpace>& spaces, const RecordedSpace& out) {
  LookupRecords records;
  records.devices.push_back(out.device);
  long long id = 0;
  for (const RecordedSpace& space : spaces) {
    if (space.problem == out.problem || !same_device(space.device, out.device)) {
      continue;
    }
    records.problems.push_back(space.problem);
    for (const VariantResult& result : space.results) {
      const auto known = std::ranges::find(records.variants, result.variant);
      const auto variant = static_cast<std::uint32_t>(known - records.variants.begin());
      if (known == records.variants.end()) {
        records.variants.push_back(result.variant);
      }
      const bool is_ok = result.state == ResultState::ok;
      records.rows.push_back({.problem = static_cast<std::uint32_t>(records.problems.size() - 1),
                              .device = 0,
                              .variant = variant,
                              .provenance = result.provenance(),
                              .is_ok = is_ok,
                              .result_id = ++id,
                              .merit = is_ok ? merit(space.problem, result) : Merit{},
                              .l2_misses = std::nullopt});
    }
  }
  return records;
}

/// (Recorded time) / (fastest of the space) - 1; empty when the variant was not recorded.
std::optional<double> regret(const RecordedSpace& space, const Variant& variant) {
  const auto found = std::ranges::find_if(space.results, [&](const VariantResult& result) {
    return result.variant == variant && result.state == ResultState::ok;
  });
  return found == space.results.end() ? std::nullopt
                                      : std::optional(found->time_us() / space.best_us() - 1.0);
}

/// The default as it was recorded: with long Q tiles last under the mask, too.
Variant recorded_default(const RecordedSpace& space) {
  auto variant = default_variant(space.problem, space.device).as<AttentionVariant>();
  variant.longest_first = false;
  return variant;
}

struct Judged {
  std::string problem;
  std::string from;
  double distance = 0.0;
  double nearest = 0.0;               ///< Regret.
  std::optional<double> default_one;  ///< Regret.
  double time_ratio = 0.0;            ///< Expected over recorded.
};

/// Left-out spaces for which a neighbour of the same kind answers with a recorded variant. Only
/// spaces of at least `fewest_variants` take part: the best of a handful of variants, as recorded
/// to reproduce a paper, says little about the best of all.
std::vector<Judged> judge_all(std::size_t fewest_variants) {
  std::vector<RecordedSpace> spaces = read_recorded_spaces(SWR_RECORDINGS);
  std::erase_if(spaces, [&](const auto& space) { return space.results.size() < fewest_variants; });
  std::vector<Judged> judged;
  for (const RecordedSpace& space : spaces) {
    const auto found =
        LookupTable(records_without(spaces, space)).stored(space.problem, space.device);
    const auto lost = found ? regret(space, found->variant) : std::nullopt;
    if (lost && found->level == MatchLevel::nearest) {
      const Answer& answer = *found;
      judged.push_back({to_string(space.problem), to_string(answer.stored_problem), answer.distance,
                        *lost, regret(space, recorded_default(space)),
                        *answer.time_us / ((1.0 + *lost) * space.best_us())});
    }
  }
  return judged;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Medians {
  double nearest = 0.0;
  double default_one = 0.0;
};

Medians print_table(const std::vector<Judged>& judged) {
  std::vector<double> regrets;
  std::vector<double> defaults;
  std::cout << "| left out | answered by | distance | regret | of the default | time expected |\n";
  for (const Judged& one : judged) {
    regrets.push_back(one.nearest);
    std::cout << std::fixed << std::setprecision(1) << "| " << one.problem << " | " << one.from
              << " | " << one.distance << " | " << 100 * one.nearest << " % | ";
    if (one.default_one) {
      defaults.push_back(*one.default_one);
      std::cout << 100 * *one.default_one << " %";
    }
    std::cout << " | " << std::setprecision(2) << one.time_ratio << " |\n";
  }
  const Medians medians{median_of(regrets), median_of(defaults)};
  std::cout << "median " << 100 * medians.nearest << " % of " << regrets.size() << ", default "
            << 100 * medians.default_one << " % of " << defaults.size() << "\n";
  return medians;
}

TEST(NearestRule, LosesLittleOnRecordedShapesThatItDoesNotKnow) {
  const auto judged = judge_all(1);
  ASSERT_GE(judged.size(), 12U);
  const Medians medians = print_table(judged);
  EXPECT_LT(medians.nearest, 0.03);
  EXPECT_LT(medians.nearest, medians.default_one);
}

TEST(NearestRule, LosesLittleBetweenSpacesThatWereSearchedInFull) {
  constexpr std::size_t kFullSpace = 100;
  const auto judged = judge_all(kFullSpace);
  ASSERT_GE(judged.size(), 6U);
  const Medians medians = print_table(judged);
  EXPECT_LT(medians.nearest, 0.05);
  EXPECT_LT(medians.nearest, medians.default_one);
}

}  // namespace
}  // namespace swr
