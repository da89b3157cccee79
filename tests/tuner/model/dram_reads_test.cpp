// SPDX-License-Identifier: MIT
// Bytes that an H200 read from memory past the effective L2, four times each, against the model.
// docs/results/l2_model.md publishes the table; it is recomputed here.
#include "tuner/model/gpu_profile.h"
#include "tuner/model/time_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

namespace swr {
namespace {

using ::testing::HasSubstr;

struct Row {
  AttentionProblem problem;
  Variant variant;
  std::vector<double> measured_mb;  ///< Sorted.
  double predicted_mb = 0.0;

  double median_mb() const { return (measured_mb[1] + measured_mb[2]) / 2; }
  double error() const { return predicted_mb / median_mb() - 1; }
  /// It reads more than Q, K and V once, so that what a warm L2 kept does not count.
  bool past_l2() const {
    return median_mb() * 1e6 > static_cast<double>(compulsory_bytes(problem).read);
  }
};

double predicted_mb(const AttentionProblem& problem, const Variant& variant) {
  static const GpuProfile h200 = load_profile("h200");
  const ScheduleShape shape = schedule_on_gpu(problem, variant, 1, h200);
  const L2Traffic traffic = simulate_l2(shape, h200.l2_effective_bytes);
  const long long fetched =
      traffic.compulsory_misses + traffic.excess_misses - traffic.schedule.write_sectors;
  return static_cast<double>(fetched * kSectorBytes) / 1e6;
}

/// The enumerator of this spelling.
template <typename Enum>
Enum enumerator(const std::string& spelling) {
  int value = 0;
  while (to_string(static_cast<Enum>(value)) != spelling) {
    ++value;
  }
  return static_cast<Enum>(value);
}

Row parse_row(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    fields.push_back(field);
  }
  const auto number = [&fields](std::size_t i) { return std::stoi(fields.at(i)); };
  Row row;
  row.problem = {.heads_q = number(2),
                 .heads_kv = number(2),
                 .seq_q = number(0),
                 .seq_kv = number(0),
                 .head_dim = number(1),
                 .causal = number(3) == 1};
  row.variant = {.tile_m = 128,
                 .tile_n = 64,
                 .warps = 8,
                 .stages = number(6),
                 .order = enumerator<Order>(fields.at(7)),
                 .persistence = enumerator<Persistence>(fields.at(4)),
                 .swizzle = enumerator<Swizzle>(fields.at(5))};
  for (std::size_t i = 8; i < 12; ++i) {
    row.measured_mb.push_back(std::stod(fields.at(i)) / 1e6);
  }
  std::sort(row.measured_mb.begin(), row.measured_mb.end());
  row.predicted_mb = predicted_mb(row.problem, row.variant);
  return row;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::ifstream file(SWR_DRAM_READS);
    std::vector<Row> parsed;
    std::string line;
    std::getline(file, line);  // Names.
    while (std::getline(file, line)) {
      parsed.push_back(parse_row(line));
    }
    return parsed;
  }();
  return all;
}

const std::string& published() {
  static const std::string text = [] {
    std::ifstream file(SWR_L2_MODEL_DOC);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  return text;
}

std::string table_row(const Row& row) {
  char text[256];
  std::snprintf(
      text, sizeof text, "| s%d d%d h%d%s | %s %s st%d %s | %.0f | %.0f to %.0f | %.0f | ",
      row.problem.seq_q, row.problem.head_dim, row.problem.heads_q,
      row.problem.causal ? " causal" : "", std::string(to_string(row.variant.persistence)).c_str(),
      std::string(to_string(row.variant.swizzle)).c_str(), row.variant.stages,
      std::string(to_string(row.variant.order)).c_str(), row.median_mb(), row.measured_mb.front(),
      row.measured_mb.back(), row.predicted_mb);
  char error[32] = "warm |";
  if (row.past_l2()) {
    std::snprintf(error, sizeof error, "%+.0f %% |", 100 * row.error());
  }
  return std::string(text) + error;
}

/// The sentence about the rows with and without the mask, or about all when it has no value.
std::string summary(const char* name, std::optional<bool> causal) {
  std::vector<double> errors;
  for (const Row& row : rows()) {
    if (row.past_l2() && row.problem.causal == causal.value_or(row.problem.causal)) {
      errors.push_back(std::abs(row.error()));
    }
  }
  std::sort(errors.begin(), errors.end());
  const auto within =
      std::count_if(errors.begin(), errors.end(), [](double e) { return e <= 0.25; });
  char text[160];
  std::snprintf(text, sizeof text, "%s: median %.1f %%, worst %.0f %%, within 25 %% in %d of %zu.",
                name, 100 * (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2,
                100 * errors.back(), static_cast<int>(within), errors.size());
  return text;
}

std::string order_summary() {
  std::map<Variant, std::map<std::string, std::pair<const Row*, const Row*>>> pairs;
  for (const Row& row : rows()) {
    Variant either = row.variant;
    either.order = Order::cyclic;
    auto& pair = pairs[either][to_string(row.problem)];
    (row.variant.order == Order::cyclic ? pair.first : pair.second) = &row;
  }
  int clear = 0;
  int right = 0;
  for (const auto& [variant, problems] : pairs) {
    for (const auto& [problem, pair] : problems) {
      const auto& [cyclic, sawtooth] = pair;
      if (cyclic == nullptr || sawtooth == nullptr) {
        continue;
      }
      const double measured = cyclic->median_mb() - sawtooth->median_mb();
      if (std::abs(measured) > 0.05 * cyclic->median_mb()) {
        ++clear;
        right += measured * (cyclic->predicted_mb - sawtooth->predicted_mb) > 0;
      }
    }
  }
  char text[128];
  std::snprintf(text, sizeof text, "The order that reads less is named in %d of %d pairs", right,
                clear);
  return text;
}

TEST(DramReads, EveryPairIsPublishedAsMeasuredAndModelled) {
  ASSERT_GE(rows().size(), 24U);
  for (const Row& row : rows()) {
    EXPECT_THAT(published(), HasSubstr(table_row(row) + "\n"));
  }
  EXPECT_THAT(published(), HasSubstr(summary("Without a mask", false)));
  EXPECT_THAT(published(), HasSubstr(summary("Causal", true)));
  EXPECT_THAT(published(), HasSubstr(summary("Together", std::nullopt)));
  EXPECT_THAT(published(), HasSubstr(order_summary()));
}

TEST(DramReads, WithoutAMaskEveryPairIsWithin25Percent) {
  for (const Row& row : rows()) {
    if (!row.problem.causal && row.past_l2()) {
      EXPECT_LE(std::abs(row.error()), 0.25) << table_row(row);
    }
  }
}

}  // namespace
}  // namespace swr
