// SPDX-License-Identifier: MIT
#include "experiments/studies/study.h"

#include "core/metrics.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "db/problem_key.h"
#include "experiments/l2_model/analytic_sectors.h"
#include "report/explain/analysis.h"
#include "report/report.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <utility>

namespace swr {
namespace {

using Value = std::optional<double>;

Value number(std::optional<long long> value) {
  return value ? Value(static_cast<double>(*value)) : std::nullopt;
}

Value sectors(const StudyRow& row) { return number(l2_sectors(row.result)); }
Value formula(const StudyRow& row) {
  const Problem& problem = row.point->problem;
  if (&problem.operation() != &attention_operation()) {
    return std::nullopt;
  }
  return analytic_sectors(problem.as<AttentionProblem>(),
                          row.point->variant.as<AttentionVariant>().tile_m);
}
Value deviation(const StudyRow& row) {
  const Value all = sectors(row);
  const Value expected = formula(row);
  return all && expected ? Value(*all / *expected - 1.0) : std::nullopt;
}
Value excess(const StudyRow& row) {
  return number(excess_miss_sectors(row.point->problem, row.result));
}
Value compulsory(const StudyRow& row) {
  return static_cast<double>(compulsory_sectors(row.point->problem));
}
Value misses(const StudyRow& row) { return number(l2_miss_sectors(row.result)); }
Value memory_bytes(const StudyRow& row) { return number(dram_bytes(row.result)); }
Value hit_rate(const StudyRow& row) { return l2_hit_rate(row.result); }
Value time_us(const StudyRow& row) { return row.result.time_us(); }
Value p95_us(const StudyRow& row) {
  const Measurement* measurement = row.result.measurement();
  return measurement != nullptr ? Value(measurement->p95_us) : std::nullopt;
}
Value rate(const StudyRow& row) { return tflop_per_s(row.point->problem, row.result); }
Value prediction_error(const StudyRow& row) {
  const Prediction* prediction = row.result.prediction();
  return prediction != nullptr && prediction->relative_error > 0 ? Value(prediction->relative_error)
                                                                 : std::nullopt;
}

std::string metric_text(const StudyMetric& metric, Value value) {
  if (!value) {
    return "-";
  }
  const std::string_view key = metric.key;
  if (key == "deviation" || key == "hit_rate") {
    return significant_text(*value * 100, 4) + " %";
  }
  if (key == "prediction_error") {
    return percent_text(*value);
  }
  if (key == "time_us" || key == "p95_us") {
    return time_text(*value);
  }
  return key == "tflop_per_s" ? significant_text(*value, 4) : grouped_text(std::llround(*value));
}

/// Metrics that some row has.
std::vector<StudyMetric> known_metrics(const std::vector<StudyRow>& rows) {
  std::vector<StudyMetric> known;
  std::ranges::copy_if(study_metrics(), std::back_inserter(known), [&](const StudyMetric& metric) {
    return std::ranges::any_of(rows,
                               [&](const StudyRow& row) { return metric.value(row).has_value(); });
  });
  return known;
}

std::string x_text(const StudyPoint& point) {
  return point.x_text.empty() ? grouped_text(std::llround(point.x)) : point.x_text;
}

/// How sawtooth changes the excess misses of cyclic, where only the order differs and cyclic has
/// enough of them to speak of.
void write_savings(std::ostream& out, const std::vector<StudyRow>& rows) {
  constexpr double kWorthASentence = 0.1;  // Of the compulsory misses.
  std::map<std::pair<Problem, Variant>, double> cyclic;
  for (const StudyRow& row : rows) {
    if (order_of(row.point->variant) == Order::cyclic) {
      cyclic[{row.point->problem, row.point->variant}] = excess(row).value_or(0.0);
    }
  }
  std::vector<double> changes;
  for (const StudyRow& row : rows) {
    if (order_of(row.point->variant) != Order::sawtooth) {
      continue;
    }
    Variant other = row.point->variant;
    set_order(other, Order::cyclic);
    const auto pair = cyclic.find({row.point->problem, other});
    if (pair != cyclic.end() && pair->second > kWorthASentence * *compulsory(row)) {
      changes.push_back(excess(row).value_or(0.0) / pair->second - 1.0);
    }
  }
  if (!changes.empty()) {
    const auto [low, high] = std::ranges::minmax(changes);
    out << "\nExcess misses of sawtooth against cyclic, where cyclic has any to speak of: "
        << change_text(1.0, 1.0 + low) << " to " << change_text(1.0, 1.0 + high) << ".\n";
  }
}

void write_csv_rows(std::ostream& out, const Study& study, const ResultOf& result_of) {
  for (const Experiment& experiment : study.experiments) {
    for (const StudyRow& row : rows_of(experiment, result_of)) {
      out << study.name << "," << experiment.id << "," << row.point->series << ","
          << std::llround(row.point->x) << "," << to_string(row.result.provenance());
      for (const Field& field : fields(study.operation())) {
        out << "," << field_text(row.point->problem, field);
      }
      for (const StudyMetric& metric : study_metrics()) {
        const Value value = metric.value(row);
        out << "," << (value ? significant_text(*value, 8) : "");
      }
      out << ",\"" << to_key(row.result.variant) << "\"\n";
    }
  }
}

}  // namespace

std::optional<double> l2_hit_rate(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    const auto missed =
        static_cast<double>(prediction->compulsory_misses + prediction->excess_misses);
    return 1.0 - missed / static_cast<double>(prediction->read_sectors + prediction->write_sectors);
  }
  const auto& counters = result.measurement()->counters;
  if (!counters || counters->sectors_demanded == 0) {
    return std::nullopt;
  }
  const auto from_memory = static_cast<double>(counters->dram_read_bytes) / kSectorBytes;
  return 1.0 - from_memory / static_cast<double>(counters->sectors_demanded);
}

const std::vector<StudyMetric>& study_metrics() {
  static const std::vector<StudyMetric> kMetrics{{"l2_sectors", "L2 sectors", sectors},
                                                 {"formula_sectors", "formula", formula},
                                                 {"deviation", "deviation", deviation},
                                                 {"compulsory_sectors", "compulsory", compulsory},
                                                 {"excess_sectors", "excess misses", excess},
                                                 {"l2_miss_sectors", "L2 misses", misses},
                                                 {"hit_rate", "hit rate", hit_rate},
                                                 {"dram_bytes", "DRAM bytes", memory_bytes},
                                                 {"time_us", "time", time_us},
                                                 {"p95_us", "p95", p95_us},
                                                 {"tflop_per_s", "TFLOP/s", rate},
                                                 {"prediction_error", "error", prediction_error}};
  return kMetrics;
}

void write_row_table(std::ostream& out, const Experiment& experiment,
                     const std::vector<StudyRow>& rows) {
  const auto metrics = known_metrics(rows);
  out << "| series | " << experiment.x_title;
  for (const StudyMetric& metric : metrics) {
    out << " | " << metric.title;
  }
  out << " | |\n|---|---:";
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    out << "|---:";
  }
  out << "|---|\n";
  for (const StudyRow& row : rows) {
    out << "| " << row.point->series << " | " << x_text(*row.point);
    for (const StudyMetric& metric : metrics) {
      out << " | " << metric_text(metric, metric.value(row));
    }
    out << " | " << to_string(row.result.provenance()) << " |\n";
  }
}

std::vector<StudyRow> rows_of(const Experiment& experiment, const ResultOf& result_of) {
  std::vector<StudyRow> rows;
  for (const StudyPoint& point : experiment.points) {
    auto result = result_of(point);
    if (result && result->state == ResultState::ok) {
      rows.push_back({&point, std::move(*result)});
    }
  }
  return rows;
}

void write_study_csv(std::ostream& out, const Study& study, const ResultOf& result_of,
                     const StudyContext& context) {
  out << "study,experiment,series,x,provenance";
  for (const Field& field : fields(study.operation())) {
    out << "," << field.name;
  }
  for (const StudyMetric& metric : study_metrics()) {
    out << "," << metric.key;
  }
  out << ",variant\n";
  write_csv_rows(out, study, result_of);
  if (context.predictions) {
    write_csv_rows(out, study, context.predictions);
  }
}

void write_study_tables(std::ostream& out, const Study& study, const ResultOf& result_of,
                        const StudyContext& context) {
  for (const Experiment& experiment : study.experiments) {
    if (experiment.is_grid_of_tiles) {
      study.write_choices(out, study, result_of);
      continue;
    }
    const auto rows = rows_of(experiment, result_of);
    if (rows.empty()) {
      continue;
    }
    out << "\n## " << experiment.title << "\n\n";
    if (experiment.write_section) {
      experiment.write_section(out, experiment, result_of, context);
    } else {
      write_row_table(out, experiment, rows);
      write_savings(out, rows);
    }
  }
}

Study make_study(std::string_view name, const DeviceInfo& device) {
  std::string known;
  for (const StudyEntry& study : studies()) {
    if (study.name == name) {
      return study.make(device);
    }
    known += (known.empty() ? "" : ", ") + std::string(study.name);
  }
  throw Error(ErrorCode::invalid_argument,
              "there is no study '" + std::string(name) + "'; there are " + known);
}

}  // namespace swr
