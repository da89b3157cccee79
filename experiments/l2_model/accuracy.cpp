// SPDX-License-Identifier: MIT
#include "experiments/l2_model/accuracy.h"

#include "core/number_text.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/predict/predicting_evaluator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace swr {
namespace {

double relative_error(long long predicted, long long measured) {
  return std::abs(static_cast<double>(predicted - measured)) / static_cast<double>(measured);
}

double middle(std::vector<double> values) {
  if (values.empty()) {
    return 0.0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Indices in the order of a key; equal keys keep the order of their index.
template <typename Key>
std::vector<std::size_t> sorted_by(std::size_t count, Key key) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

/// Rank of each value; equal values share the mean of their ranks.
template <typename Key>
std::vector<double> ranks(std::size_t count, Key key) {
  const std::vector<std::size_t> order = sorted_by(count, key);
  std::vector<double> result(count);
  for (std::size_t begin = 0; begin < count;) {
    std::size_t end = begin;
    while (end < count && !(key(order[begin]) < key(order[end]))) {
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      result[order[i]] = static_cast<double>(begin + end - 1) / 2.0;
    }
    begin = end;
  }
  return result;
}

/// Pearson's correlation; 0 when a side is constant.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = (static_cast<double>(a.size()) - 1.0) / 2.0;  // Of any ranks.
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

double best_measured_us(const std::vector<Comparison>& rows, const std::vector<std::size_t>& order,
                        std::size_t count) {
  double best_us = rows[order.front()].measured_us;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    best_us = std::min(best_us, rows[order[i]].measured_us);
  }
  return best_us;
}

void assess_choice(const std::vector<Comparison>& rows, Accuracy& accuracy) {
  const auto predicted = [&rows](std::size_t i) { return rows[i].predicted_us; };
  const auto measured = [&rows](std::size_t i) { return rows[i].measured_us; };
  const std::size_t count = rows.size();
  accuracy.rank_correlation = correlation(ranks(count, predicted), ranks(count, measured));
  std::vector<Variant> variants;
  std::vector<double> predicted_us;
  for (const Comparison& row : rows) {
    variants.push_back(row.variant);
    predicted_us.push_back(row.predicted_us);
  }
  const std::vector<std::size_t> order = shortlist(variants, predicted_us);
  const double best_us = best_measured_us(rows, order, count);
  const auto regret = [&](std::size_t first) {
    return best_measured_us(rows, order, first) / best_us - 1.0;
  };
  accuracy.regret_of_1 = regret(1);
  accuracy.regret_of_4 = regret(4);
  accuracy.regret_of_8 = regret(8);
  accuracy.best_among_first_8 = accuracy.regret_of_8 <= 0.0;
  accuracy.tied_among_first_8 = accuracy.regret_of_8 <= kTie;
}

void assess_traffic(const std::vector<Comparison>& rows, Accuracy& accuracy) {
  std::vector<double> dram_errors;
  for (const Comparison& row : rows) {
    if (row.measured_read_sectors > 0) {
      accuracy.worst_sector_error =
          std::max(accuracy.worst_sector_error,
                   relative_error(row.predicted_read_sectors, row.measured_read_sectors));
    }
    if (row.measured_dram_bytes > row.compulsory_read_bytes) {
      dram_errors.push_back(relative_error(row.predicted_dram_bytes, row.measured_dram_bytes));
    }
  }
  accuracy.dram_rows = dram_errors.size();
  accuracy.median_dram_error = middle(dram_errors);
  if (!dram_errors.empty()) {
    accuracy.worst_dram_error = *std::max_element(dram_errors.begin(), dram_errors.end());
  }
}

void assess_orders(const std::vector<Comparison>& rows, Accuracy& accuracy) {
  constexpr double kClearly = 0.05;
  std::map<Variant, const Comparison*> cyclic;
  for (const Comparison& row : rows) {
    if (order_of(row.variant) == Order::cyclic) {
      cyclic[row.variant] = &row;
    }
  }
  for (const Comparison& sawtooth : rows) {
    if (order_of(sawtooth.variant) != Order::sawtooth) {
      continue;
    }
    Variant partner = sawtooth.variant;
    set_order(partner, Order::cyclic);
    const auto found = cyclic.find(partner);
    if (found == cyclic.end()) {
      continue;
    }
    const Comparison& other = *found->second;
    const long long measured = other.measured_dram_bytes - sawtooth.measured_dram_bytes;
    const long long predicted = other.predicted_dram_bytes - sawtooth.predicted_dram_bytes;
    const bool past_l2 = std::max(other.measured_dram_bytes, sawtooth.measured_dram_bytes) >
                         other.compulsory_read_bytes;
    if (past_l2 && std::abs(static_cast<double>(measured)) >
                       kClearly * static_cast<double>(other.measured_dram_bytes)) {
      ++accuracy.order_pairs;
      accuracy.order_pairs_right +=
          (measured > 0 && predicted > 0) || (measured < 0 && predicted < 0);
    }
  }
}

/// Times as predicted, known when they are asked for.
class BoundedTimes final : public PredictedTimes {
 public:
  explicit BoundedTimes(const std::vector<Comparison>& rows) : rows_(rows) {
    for (const Comparison& row : rows) {
      at_least_us_.push_back(row.bound_us);
      is_known_.push_back(false);
    }
  }

 private:
  void refine_unknown(const std::vector<std::size_t>& places) override {
    for (const std::size_t place : places) {
      at_least_us_[place] = rows_[place].predicted_us;
      is_known_[place] = true;
    }
  }

  const std::vector<Comparison>& rows_;
};

}  // namespace

std::vector<Comparison> compare(const RecordedSpace& space, const GpuProfile& profile) {
  PredictingEvaluator model(profile);
  std::vector<Comparison> rows;
  for (const VariantResult& result : space.results) {
    if (result.state != ResultState::ok) {
      continue;
    }
    CompiledKernel kernel;
    kernel.resources = result.resources;
    const Prediction prediction =
        *model.evaluate(space.problem, result.variant, kernel).prediction();
    const Counters counters = result.measurement()->counters.value_or(Counters{});
    const long long missed = prediction.compulsory_misses + prediction.excess_misses;
    rows.push_back(
        {.variant = result.variant,
         .measured_us = result.time_us(),
         .predicted_us = prediction.time_us,
         .bound_us = model.bound_us(space.problem, result.variant, kernel, BoundBy::sums),
         .measured_read_sectors = counters.sectors_demanded,
         .predicted_read_sectors = prediction.read_sectors,
         .measured_dram_bytes = counters.dram_read_bytes,
         .predicted_dram_bytes = (missed - prediction.write_sectors) * kSectorBytes,
         .compulsory_read_bytes = compulsory_bytes(space.problem).read});
  }
  return rows;
}

Accuracy assess(const std::vector<Comparison>& comparisons) {
  Accuracy accuracy;
  accuracy.variants = comparisons.size();
  assess_choice(comparisons, accuracy);
  std::vector<double> time_ratios;
  for (const Comparison& row : comparisons) {
    time_ratios.push_back(row.predicted_us / row.measured_us);
  }
  accuracy.time_ratio = middle(std::move(time_ratios));
  assess_traffic(comparisons, accuracy);
  assess_orders(comparisons, accuracy);
  return accuracy;
}

SparedWalks spare_walks(const std::vector<Comparison>& comparisons) {
  constexpr std::size_t kFirst = 8;
  std::vector<Variant> variants;
  std::vector<double> all_us;
  SparedWalks spared{.variants = comparisons.size()};
  for (const Comparison& row : comparisons) {
    variants.push_back(row.variant);
    all_us.push_back(row.predicted_us);
    spared.worst_bound = std::max(spared.worst_bound, row.bound_us / row.predicted_us);
  }
  BoundedTimes times(comparisons);
  const std::vector<std::size_t> first = first_of_shortlist(variants, times, kFirst);
  const std::vector<std::size_t> of_all = shortlist(variants, all_us);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double ratio = all_us[first[i]] / all_us[of_all[i]];
    spared.worst_difference = std::max(spared.worst_difference, std::abs(ratio - 1.0));
  }
  for (std::size_t place = 0; place < variants.size(); ++place) {
    spared.predicted += times.is_known(place) ? 1 : 0;
  }
  return spared;
}

std::string accuracy_row(const Problem& problem, const Accuracy& accuracy) {
  const auto percent = [](double share, int decimals) { return fixed_text(100 * share, decimals); };
  const char* const first_8 = accuracy.best_among_first_8   ? "yes"
                              : accuracy.tied_among_first_8 ? "tied"
                                                            : "no";
  return "| " + to_string(problem) + " | " + std::to_string(accuracy.variants) + " | " +
         fixed_text(accuracy.rank_correlation, 2) + " | " + percent(accuracy.regret_of_1, 1) +
         " / " + percent(accuracy.regret_of_4, 1) + " / " + percent(accuracy.regret_of_8, 1) +
         " % | " + first_8 + " | " + fixed_text(accuracy.time_ratio, 2) + " | " +
         percent(accuracy.worst_sector_error, 2) + " % | " +
         percent(accuracy.median_dram_error, 0) + " / " + percent(accuracy.worst_dram_error, 0) +
         " % of " + std::to_string(accuracy.dram_rows) + " | " +
         std::to_string(accuracy.order_pairs_right) + " of " +
         std::to_string(accuracy.order_pairs) + " |";
}

}  // namespace swr
