// SPDX-License-Identifier: MIT
#include "core/metrics.h"
#include "core/number_text.h"
#include "db/problem_key.h"
#include "experiments/studies/gemm_study.h"
#include "report/explain/analysis.h"
#include "report/report.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>

namespace swr {
namespace {

using Value = std::optional<double>;

int stride_of(const Variant& variant) { return variant.as<GemmVariant>().swizzle_stride; }

double rate(const StrideSweep& sweep, const VariantResult& result) {
  return tflop_per_s(sweep.problem, result).value_or(0.0);
}

Value dram_mb(const VariantResult& result) {
  const auto bytes = dram_bytes(result);
  return bytes ? Value(static_cast<double>(*bytes) / 1e6) : std::nullopt;
}

/// The rate at the 95th percentile of the times.
Value p95_rate(const StrideSweep& sweep, const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr
             ? Value(rate(sweep, result) * measurement->median_us / measurement->p95_us)
             : std::nullopt;
}

std::string value_text(Value value, int digits = 4) {
  return value ? significant_text(*value, digits) : "-";
}

std::string share_text(Value share) {
  return share ? significant_text(*share * 100, 3) + " %" : "-";
}

std::string size_text(const GemmProblem& problem) {
  return std::to_string(problem.m) + " x " + std::to_string(problem.n) + " x " +
         std::to_string(problem.k);
}

void write_line(std::ostream& out, const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) {
    out << "| " << cell << " ";
  }
  out << "|\n";
}

void write_head(std::ostream& out, const std::vector<std::string>& titles) {
  write_line(out, titles);
  for (std::size_t i = 0; i < titles.size(); ++i) {
    out << (i == 0 || i + 1 == titles.size() ? "|---" : "|---:");
  }
  out << "|\n";
}

bool has_predictions(const std::vector<StrideSweep>& sweeps) {
  return std::ranges::any_of(
      sweeps, [](const StrideSweep& sweep) { return sweep.predicted_best() != nullptr; });
}

std::vector<std::string> summary_cells(const StrideSweep& sweep) {
  const VariantResult& best = sweep.best().result;
  const VariantResult& off = sweep.off().result;
  return {size_text(sweep.problem),
          tile_text(best.variant),
          std::to_string(sweep.best().stride),
          significant_text(rate(sweep, best), 4),
          value_text(p95_rate(sweep, best)),
          significant_text(rate(sweep, off), 4),
          share_text(off.time_us() / best.time_us() - 1.0),
          share_text(sweep.sensitivity()),
          share_text(l2_hit_rate(best)),
          share_text(l2_hit_rate(off)),
          value_text(dram_mb(best)),
          value_text(dram_mb(off))};
}

std::vector<std::string> prediction_cells(const StrideSweep& sweep) {
  const StrideResult* const predicted = sweep.predicted_best();
  return predicted == nullptr
             ? std::vector<std::string>{"-", "-"}
             : std::vector{std::to_string(predicted->stride), share_text(loss(sweep, *predicted))};
}

void append(std::vector<std::string>& cells, const std::vector<std::string>& more) {
  cells.insert(cells.end(), more.begin(), more.end());
}

void write_score(std::ostream& out, const StrideScore& score) {
  out << "\nStrides that the model chose before anything was measured: " << score.exact << " of "
      << score.shapes << " are the best measured, " << score.within_1_percent << " of "
      << score.shapes << " lose at most 1 %; " << share_text(score.mean_loss) << " in the mean, "
      << share_text(score.worst_loss) << " at most.\n";
}

/// Cyclic and sawtooth of one shape and family.
struct KOrderPair {
  const StudyPoint* point = nullptr;
  std::optional<VariantResult> cyclic;
  std::optional<VariantResult> sawtooth;
};

std::vector<KOrderPair> k_order_pairs(const Experiment& experiment, const ResultOf& result_of) {
  std::vector<KOrderPair> pairs;
  std::vector<std::pair<Problem, Variant>> known;
  for (const StudyRow& row : rows_of(experiment, result_of)) {
    Variant shared = row.point->variant;
    set_order(shared, Order::cyclic);
    const std::pair key{row.point->problem, shared};
    const auto found = std::ranges::find(known, key);
    const auto place = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(key);
      pairs.push_back({.point = row.point, .cyclic = {}, .sawtooth = {}});
    }
    KOrderPair& pair = pairs[place];
    (order_of(row.point->variant) == Order::sawtooth ? pair.sawtooth : pair.cyclic) = row.result;
  }
  std::erase_if(pairs, [](const KOrderPair& pair) { return !pair.cyclic || !pair.sawtooth; });
  return pairs;
}

std::string change(Value before, Value after) {
  return before && after && *before > 0.0 ? change_text(*before, *after) : "-";
}

Value misses(const VariantResult& result) {
  const auto sectors = l2_miss_sectors(result);
  return sectors ? Value(static_cast<double>(*sectors)) : std::nullopt;
}

std::string count_or_dash(Value count) { return count ? count_text(std::llround(*count)) : "-"; }

}  // namespace

const StrideResult& StrideSweep::best() const {
  return *std::ranges::min_element(strides, {},
                                   [](const StrideResult& one) { return one.result.time_us(); });
}

double StrideSweep::sensitivity() const {
  const auto slowest = std::ranges::max_element(
      strides, {}, [](const StrideResult& one) { return one.result.time_us(); });
  return 1.0 - best().result.time_us() / slowest->result.time_us();
}

const StrideResult* StrideSweep::predicted_best() const {
  if (!std::ranges::all_of(strides,
                           [](const StrideResult& one) { return one.predicted.has_value(); })) {
    return nullptr;
  }
  return &*std::ranges::min_element(
      strides, {}, [](const StrideResult& one) { return one.predicted->time_us(); });
}

double loss(const StrideSweep& sweep, const StrideResult& chosen) {
  return chosen.result.time_us() / sweep.best().result.time_us() - 1.0;
}

std::vector<StrideSweep> stride_sweeps(const Experiment& experiment, const ResultOf& result_of,
                                       const ResultOf& predictions) {
  std::vector<StrideSweep> sweeps;
  for (StudyRow& row : rows_of(experiment, result_of)) {
    const auto& problem = row.point->problem.as<GemmProblem>();
    const int stride = stride_of(row.point->variant);
    if (stride == 0) {
      sweeps.push_back({.problem = problem, .strides = {}});
    }
    if (!sweeps.empty() && sweeps.back().problem == problem) {
      sweeps.back().strides.push_back(
          {.stride = stride,
           .result = std::move(row.result),
           .predicted = predictions ? predictions(*row.point) : std::nullopt});
    }
  }
  return sweeps;
}

std::optional<StrideScore> stride_score(const std::vector<StrideSweep>& sweeps) {
  constexpr double kOnePercent = 0.01;
  StrideScore score;
  for (const StrideSweep& sweep : sweeps) {
    if (const StrideResult* const predicted = sweep.predicted_best()) {
      const double lost = loss(sweep, *predicted);
      ++score.shapes;
      score.exact += predicted == &sweep.best() ? 1 : 0;
      score.within_1_percent += lost <= kOnePercent ? 1 : 0;
      score.mean_loss += lost;
      score.worst_loss = std::max(score.worst_loss, lost);
    }
  }
  score.mean_loss /= std::max(1, score.shapes);
  return score.shapes > 0 ? std::optional(score) : std::nullopt;
}

void write_stride_summary(std::ostream& out, const std::vector<StrideSweep>& sweeps) {
  const bool predicted = has_predictions(sweeps);
  std::vector<std::string> titles{"m x n x k",   "tile",
                                  "best stride", "TFLOP/s",
                                  "at p95",      "stride 0",
                                  "gain",        "sensitivity",
                                  "hit rate",    "hit rate, stride 0",
                                  "DRAM MB",     "DRAM MB, stride 0"};
  if (predicted) {
    append(titles, {"predicted stride", "it loses"});
  }
  titles.emplace_back("");
  write_head(out, titles);
  for (const StrideSweep& sweep : sweeps) {
    std::vector<std::string> cells = summary_cells(sweep);
    if (predicted) {
      append(cells, prediction_cells(sweep));
    }
    cells.emplace_back(to_string(sweep.best().result.provenance()));
    write_line(out, cells);
  }
  if (const auto score = stride_score(sweeps)) {
    write_score(out, *score);
  }
}

void write_k_orders(std::ostream& out, const Experiment& experiment, const ResultOf& result_of,
                    const StudyContext& /*context*/) {
  write_head(out,
             {experiment.x_title, "family", "tile", "cyclic", "sawtooth", "time", "misses, cyclic",
              "misses, sawtooth", "misses", "DRAM MB, cyclic", "DRAM MB, sawtooth", "DRAM", ""});
  for (const KOrderPair& pair : k_order_pairs(experiment, result_of)) {
    const VariantResult& cyclic = *pair.cyclic;
    const VariantResult& sawtooth = *pair.sawtooth;
    write_line(out, {pair.point->x_text, std::string(to_string(family_of(cyclic.variant))),
                     tile_text(cyclic.variant), time_text(cyclic.time_us()),
                     time_text(sawtooth.time_us()), change(cyclic.time_us(), sawtooth.time_us()),
                     count_or_dash(misses(cyclic)), count_or_dash(misses(sawtooth)),
                     change(misses(cyclic), misses(sawtooth)), value_text(dram_mb(cyclic)),
                     value_text(dram_mb(sawtooth)), change(dram_mb(cyclic), dram_mb(sawtooth)),
                     std::string(to_string(cyclic.provenance()))});
  }
}

void write_strides(std::ostream& out, const Experiment& experiment, const ResultOf& result_of,
                   const StudyContext& context) {
  write_stride_summary(out, stride_sweeps(experiment, result_of, context.predictions));
  out << "\n";
  write_row_table(out, experiment, rows_of(experiment, result_of));
}

}  // namespace swr
