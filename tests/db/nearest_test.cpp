// SPDX-License-Identifier: MIT
// Which stored shape answers for another, and what that costs.
#include "core/recorded_space.h"
#include "db/lookup_table.h"
#include "db/match.h"
#include "db/shape_tree.h"
#include "tests/db/fixtures.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

#include <iomanip>

namespace swr {
namespace {
TEST(Match, EqualShapesAreAtDistanceZero) {
  EXPECT_EQ(shape_distance(problem_of(4096), problem_of(4096)), 0.0);
}

TEST(Match, OneDoublingIsAtDistanceOneInEveryDimension) {
  const AttentionProblem base = problem_of(4096);
  for (int AttentionProblem::*dimension :
       {&AttentionProblem::batch, &AttentionProblem::heads_q, &AttentionProblem::heads_kv,
        &AttentionProblem::seq_q, &AttentionProblem::seq_kv}) {
    AttentionProblem doubled = base;
    doubled.*dimension *= 2;
    EXPECT_DOUBLE_EQ(shape_distance(base, doubled).value(), 1.0);
    EXPECT_DOUBLE_EQ(shape_distance(doubled, base).value(), 1.0);
  }
}

TEST(Match, DimensionsAddUpAsSquares) {
  AttentionProblem far = problem_of(4096);
  far.batch = 8;    // three octaves
  far.seq_q /= 16;  // four
  EXPECT_DOUBLE_EQ(shape_distance(problem_of(4096), far).value(), 5.0);
}

TEST(Match, ProblemsOfAnotherKindHaveNoDistance) {
  const AttentionProblem base = problem_of(4096);
  AttentionProblem other = base;
  other.dtype = DType::bf16;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.head_dim = 128;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.causal = true;
  EXPECT_FALSE(shape_distance(base, other));
  other = base;
  other.alignment_bytes = 8;
  EXPECT_FALSE(shape_distance(base, other));
}

TEST(Match, DevicesDifferByTheirSizesNotTheirNames) {
  DeviceInfo other = fictional_gpu();
  other.name = "Fictional F1 Deluxe";
  EXPECT_EQ(device_distance(fictional_gpu(), other), 0.0);
  other.l2_bytes *= 2;
  EXPECT_DOUBLE_EQ(device_distance(fictional_gpu(), other), 1.0);
}

TEST(Match, TheSmallerTimeWinsWhateverTheRest) {
  VariantResult slow = predicted(tile(64, 64), 11.0);
  VariantResult fast = predicted(tile(128, 64), 10.0);
  std::get<Prediction>(fast.outcome).excess_misses = 1000;
  EXPECT_TRUE(is_better(problem_of(4096), fast, slow));
  EXPECT_FALSE(is_better(problem_of(4096), slow, fast));
}

TEST(Match, TiesGoToFewerExcessMissesThenRegistersThenTheKey) {
  const AttentionProblem problem = problem_of(4096);
  VariantResult a = predicted(tile(128, 64), 10.0);
  VariantResult b = predicted(tile(64, 64), 10.0);
  EXPECT_TRUE(is_better(problem, a, b)) << "by key: tile_m=128 sorts before tile_m=64";
  b.resources.registers_per_thread = 100;
  EXPECT_TRUE(is_better(problem, b, a)) << "by registers";
  std::get<Prediction>(b.outcome).excess_misses = 5;
  EXPECT_TRUE(is_better(problem, a, b)) << "by misses";
}

TEST(Match, KnownMissesBeatUnknownOnesInATie) {
  const VariantResult unknown = measured(tile(64, 64), 10.0);
  VariantResult known = measured(tile(64, 64), 10.0);
  auto& measurement = std::get<Measurement>(known.outcome);
  measurement.counters = Counters{.dram_read_bytes = 1LL << 40};
  measurement.counters_missing_because.clear();
  EXPECT_TRUE(is_better(problem_of(4096), known, unknown));
}

template <typename Size>
std::vector<ShapeTree::Point> points_of(std::size_t count, Size&& size) {
  std::vector<ShapeTree::Point> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    points[i].at = shape_point(size(), size(), size(), 3 * size(), size());
    points[i].item = static_cast<std::uint32_t>(i);
  }
  return points;
}

/// Sizes from a coarse grid, so that many points are equal or equally far.
std::vector<ShapeTree::Point> points_of_a_grid(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 << random() % 7; });
}

/// Sizes of any kind, large ones among them.
std::vector<ShapeTree::Point> points_anywhere(std::size_t count, std::mt19937& random) {
  return points_of(count, [&] { return 1 + static_cast<int>(random() % (1U << random() % 28)); });
}

/// Every item at the smallest distance, by looking at all of them.
std::set<std::uint32_t> nearest_of_all(const std::vector<ShapeTree::Point>& points,
                                       const ShapePoint& from) {
  double nearest = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  for (const ShapeTree::Point& point : points) {
    const double squared = squared_distance(point.at, from);
    if (squared < nearest) {
      items.clear();
    }
    nearest = std::min(nearest, squared);
    if (squared == nearest) {
      items.insert(point.item);
    }
  }
  return items;
}

std::set<std::uint32_t> nearest_of_tree(const ShapeTree& tree, const ShapePoint& from) {
  double bound = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> items;
  tree.visit_near(from, bound, [&](std::uint32_t item, double squared) {
    if (squared < bound) {
      items.clear();
    }
    bound = squared;
    items.insert(item);
  });
  return items;
}

void expect_nearest_of_all(const std::vector<ShapeTree::Point>& points,
                           const std::vector<ShapeTree::Point>& questions) {
  const ShapeTree tree(points);
  EXPECT_EQ(tree.size(), points.size());
  for (const ShapeTree::Point& question : questions) {
    EXPECT_EQ(nearest_of_tree(tree, question.at), nearest_of_all(points, question.at));
  }
}

TEST(ShapeTree, FindsEveryNearestPointOfRandomOnes) {
  std::mt19937 random(3);
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 16U, 17U, 100U, 1500U}) {
    expect_nearest_of_all(points_of_a_grid(count, random), points_of_a_grid(200, random));
    expect_nearest_of_all(points_anywhere(count, random), points_anywhere(200, random));
  }
}

TEST(ShapeTree, LooksAtFewOfManyPoints) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> length(1, 1 << 20);
  std::vector<ShapeTree::Point> points(10000);
  for (ShapeTree::Point& point : points) {
    point.at = shape_point(1, 16, 16, length(random), length(random));
  }
  const ShapeTree tree(points);
  int considered = 0;
  double bound = std::numeric_limits<double>::infinity();
  tree.visit_near(shape_point(1, 16, 16, 5000, 5000), bound, [&](std::uint32_t, double squared) {
    bound = squared;
    ++considered;
  });
  EXPECT_LT(considered, 100);
}

// The nearest rule judged on recorded spaces: each is left out in turn, and the others answer for
// it. experiments/runtime publishes the table, which this program prints.

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

/// The default as it was recorded: with long Q tiles last under the mask, too.
Variant recorded_default(const RecordedSpace& space) {
  auto variant = default_variant(space.problem, space.device).as<AttentionVariant>();
  variant.longest_first = false;
  return variant;
}

struct LeftOut {
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
std::vector<LeftOut> judge_all(std::size_t fewest_variants) {
  std::vector<RecordedSpace> spaces = read_recorded_spaces(SWR_RECORDINGS);
  std::erase_if(spaces, [&](const auto& space) { return space.results.size() < fewest_variants; });
  std::vector<LeftOut> judged;
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

Medians print_table(const std::vector<LeftOut>& judged) {
  std::vector<double> regrets;
  std::vector<double> defaults;
  std::cout << "| left out | answered by | distance | regret | of the default | time expected |\n";
  for (const LeftOut& one : judged) {
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
