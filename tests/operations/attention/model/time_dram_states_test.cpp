// SPDX-License-Identifier: MIT
// Bytes that an H200 read from memory past the effective L2, counted launch by launch
// (experiments/l2_model/dram_reads), against the model and against each other. They took no part in
// any choice of the model's numbers. experiments/l2_model publishes the tables; they are recomputed
// here.
#include "model/profile/gpu_profile.h"
#include "operations/attention/model/time.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// The enumerator of this spelling.
template <typename Enum>
Enum enumerator(const std::string& spelling) {
  int value = 0;
  while (to_string(static_cast<Enum>(value)) != spelling) {
    ++value;
  }
  return static_cast<Enum>(value);
}

std::vector<std::string> split_line(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) {
    fields.push_back(field);
  }
  return fields;
}

/// Megabytes that the model lets an H200 with an empty L2 read.
double predicted_read_mb(const AttentionProblem& problem, const AttentionVariant& variant,
                         int ctas_per_sm) {
  static const GpuProfile h200 = load_profile("h200");
  const ScheduleShape shape = schedule_on_gpu(problem, variant, ctas_per_sm, h200);
  const L2Traffic traffic = simulate_l2(shape, h200.l2_policy());
  const long long fetched =
      traffic.compulsory_misses + traffic.excess_misses - traffic.schedule.write_sectors;
  return static_cast<double>(fetched * kSectorBytes) / 1e6;
}

/// Megabytes read by launches that began with an empty L2, their CTAs on the SMs of the launch
/// before or on drawn ones, round by round.
struct Row {
  AttentionProblem problem;
  AttentionVariant variant;
  std::array<std::vector<double>, 2> rounds_mb;
  double predicted_mb = 0.0;

  std::vector<double> launches_mb() const {
    std::vector<double> all = rounds_mb[0];
    all.insert(all.end(), rounds_mb[1].begin(), rounds_mb[1].end());
    std::sort(all.begin(), all.end());
    return all;
  }
  double measured_mb() const;
  double error() const { return predicted_mb / measured_mb() - 1; }
  /// Most over least of the launches.
  double spread() const { return launches_mb().back() / launches_mb().front(); }
  bool repeats() const { return spread() <= 1.1; }
};

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double Row::measured_mb() const { return middle(launches_mb()); }

/// As the recorded spaces of tests/data say of the three kernels.
int ctas_per_sm(const AttentionVariant& variant, int head_dim) {
  return variant.warps == 8 ? 1 : head_dim == 64 ? 3 : 2;
}

Row parse_row(const std::vector<std::string>& fields) {
  const auto number = [&fields](std::size_t i) { return std::stoi(fields.at(i)); };
  Row row;
  row.problem = {.heads_q = number(2),
                 .heads_kv = number(2),
                 .seq_q = number(0),
                 .seq_kv = number(0),
                 .head_dim = number(1),
                 .causal = number(3) == 1};
  row.variant = {.stages = number(7),
                 .order = enumerator<Order>(fields.at(8)),
                 .persistence = enumerator<Persistence>(fields.at(5)),
                 .swizzle = enumerator<AttentionSwizzle>(fields.at(6))};
  std::sscanf(fields.at(4).c_str(), "%dx%dx%d", &row.variant.tile_m, &row.variant.tile_n,
              &row.variant.warps);
  return row;
}

std::vector<Row> read_rows(const char* path) {
  std::vector<Row> joined;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // Names.
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split_line(line);
    if (fields.at(9) != "cold") {
      continue;
    }
    Row row = parse_row(fields);
    auto place = std::find_if(joined.begin(), joined.end(), [&](const Row& known) {
      return known.problem == row.problem && known.variant == row.variant;
    });
    if (place == joined.end()) {
      row.predicted_mb = predicted_read_mb(row.problem, row.variant,
                                           ctas_per_sm(row.variant, row.problem.head_dim));
      place = joined.insert(joined.end(), row);
    }
    for (std::size_t i = 12; i < fields.size(); ++i) {
      place->rounds_mb.at(static_cast<std::size_t>(std::stoi(fields.at(11)) - 1))
          .push_back(std::stod(fields.at(i)) / 1e6);
    }
  }
  return joined;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = read_rows(SWR_DRAM_STATES);
  return all;
}

/// The same pairs, counted in another session, of which nothing of the model was chosen.
const std::vector<Row>& rows_again() {
  static const std::vector<Row> all = read_rows(SWR_DRAM_STATES_AGAIN);
  return all;
}

template <typename Wanted>
std::vector<const Row*> select(Wanted wanted, const std::vector<Row>& from = rows()) {
  std::vector<const Row*> chosen;
  for (const Row& row : from) {
    if (wanted(row)) {
      chosen.push_back(&row);
    }
  }
  return chosen;
}

/// Of pairs that differ in the order alone, by more than 5 %: how many, and how many are named.
std::pair<int, int> orders_named(const std::vector<const Row*>& chosen) {
  std::map<std::pair<std::string, AttentionVariant>, const Row*> cyclic;
  for (const Row* row : chosen) {
    if (row->variant.order == Order::cyclic) {
      cyclic[{to_string(row->problem), row->variant}] = row;
    }
  }
  std::pair<int, int> named{0, 0};
  for (const Row* sawtooth : chosen) {
    AttentionVariant partner = sawtooth->variant;
    partner.order = Order::cyclic;
    const auto found = cyclic.find({to_string(sawtooth->problem), partner});
    if (sawtooth->variant.order != Order::sawtooth || found == cyclic.end()) {
      continue;
    }
    const Row& other = *found->second;
    const double saving_mb = other.measured_mb() - sawtooth->measured_mb();
    if (std::abs(saving_mb) > 0.05 * other.measured_mb()) {
      ++named.second;
      named.first += saving_mb * (other.predicted_mb - sawtooth->predicted_mb) > 0;
    }
  }
  return named;
}

std::string errors_row(const char* name, const std::vector<const Row*>& chosen) {
  std::vector<double> errors;
  for (const Row* row : chosen) {
    errors.push_back(std::abs(row->error()));
  }
  const auto within =
      std::count_if(errors.begin(), errors.end(), [](double e) { return e <= 0.25; });
  const auto [named, clear] = orders_named(chosen);
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %zu | %.1f %% | %.0f %% | %d | %d of %d |", name,
                errors.size(), 100 * middle(errors),
                100 * *std::max_element(errors.begin(), errors.end()), static_cast<int>(within),
                named, clear);
  return text;
}

/// How far the launches of a row agree: what a model that gives one number can reach.
std::string spread_row(const char* name, const std::vector<const Row*>& chosen) {
  std::vector<double> spreads;
  int launches = 0;
  int near = 0;
  for (const Row* row : chosen) {
    spreads.push_back(row->spread());
    for (const double mb : row->launches_mb()) {
      ++launches;
      near += std::abs(mb / row->measured_mb() - 1) <= 0.25;
    }
  }
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %zu | %.2f | %.2f | %d | %.1f %% |", name,
                spreads.size(), middle(spreads), *std::max_element(spreads.begin(), spreads.end()),
                static_cast<int>(std::count_if(spreads.begin(), spreads.end(),
                                               [](double s) { return s > 1.25; })),
                100.0 * near / launches);
  return text;
}

std::string published() { return bytes_of(SWR_L2_MODEL_DOC); }

bool causal(const Row& row) { return row.problem.causal; }

TEST(DramStates, ErrorsArePublishedAsComputed) {
  ASSERT_EQ(rows().size(), 270U);
  const std::string text = published();
  const auto row = [&text](const char* name, auto wanted) {
    EXPECT_THAT(text, HasSubstr(errors_row(name, select(wanted)) + "\n"));
  };
  row("no mask", [](const Row& r) { return !causal(r); });
  row("no mask, launches within 10 %", [](const Row& r) { return !causal(r) && r.repeats(); });
  row("causal", causal);
  row("causal, launches within 10 %", [](const Row& r) { return causal(r) && r.repeats(); });
  row("causal, one CTA to an SM", [](const Row& r) { return causal(r) && r.variant.warps == 8; });
  row("causal, several", [](const Row& r) { return causal(r) && r.variant.warps == 4; });
  row("all", [](const Row&) { return true; });
  row("all, launches within 10 %", [](const Row& r) { return r.repeats(); });
  const auto row_again = [&text](const char* name, auto wanted) {
    EXPECT_THAT(text, HasSubstr(errors_row(name, select(wanted, rows_again())) + "\n"));
  };
  row_again("again, all", [](const Row&) { return true; });
  row_again("again, launches within 10 %", [](const Row& r) { return r.repeats(); });
}

/// The bars, where the GPU says the same in each launch.
void expect_bars_where_launches_agree(const std::vector<Row>& from) {
  const auto chosen = select([](const Row& row) { return row.repeats(); }, from);
  EXPECT_GE(chosen.size(), 24U);
  std::vector<double> errors;
  for (const Row* row : chosen) {
    errors.push_back(std::abs(row->error()));
  }
  EXPECT_LE(middle(errors), 0.10);
  EXPECT_LE(*std::ranges::max_element(errors), 0.25);
  const auto [named, clear] = orders_named(chosen);
  EXPECT_EQ(named, clear);
}

TEST(DramStates, WhereLaunchesAgreeAllAreWithin25PercentAndEveryOrderIsNamed) {
  expect_bars_where_launches_agree(rows());
}

TEST(DramStates, WhereLaunchesOfAnotherSessionAgreeAllAreWithin25PercentAndEveryOrderIsNamed) {
  expect_bars_where_launches_agree(rows_again());
}

TEST(DramStates, HowFarLaunchesAgreeIsPublishedAsComputed) {
  const std::string text = published();
  EXPECT_THAT(
      text,
      HasSubstr(spread_row("no mask", select([](const Row& r) { return !causal(r); })) + "\n"));
  for (const auto persistence : {Persistence::grid, Persistence::persistent, Persistence::pairs}) {
    for (const auto order : {Order::cyclic, Order::sawtooth}) {
      const auto chosen = select([&](const Row& r) {
        return causal(r) && r.variant.persistence == persistence && r.variant.order == order;
      });
      if (!chosen.empty()) {
        const std::string name =
            "causal, " + std::string(to_string(persistence)) + " " + std::string(to_string(order));
        EXPECT_THAT(text, HasSubstr(spread_row(name.c_str(), chosen) + "\n"));
      }
    }
  }
}

TEST(DramStates, WithoutAMaskTheOrderIsAlwaysNamedAndTheMedianWithin10Percent) {
  const auto full = select([](const Row& row) { return !causal(row); });
  const auto [named, clear] = orders_named(full);
  EXPECT_EQ(named, clear);
  std::vector<double> errors;
  for (const Row* row : full) {
    errors.push_back(std::abs(row->error()));
  }
  EXPECT_LE(middle(errors), 0.10);
}

}  // namespace
}  // namespace swr
