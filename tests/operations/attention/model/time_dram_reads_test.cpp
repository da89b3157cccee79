// SPDX-License-Identifier: MIT
// Bytes that an H200 read from memory past the effective L2, four times each in two sessions,
// against the model. experiments/l2_model publishes the table; it is recomputed here.
#include "tests/operations/attention/model/predicted_reads.h"
#include "tests/support/attention.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

namespace swr {
namespace {

/// A variant's four runs of one session.
struct Session {
  std::vector<double> runs_mb;  ///< Sorted; empty when it was not measured.

  bool measured() const { return !runs_mb.empty(); }
  double median_mb() const { return (runs_mb[1] + runs_mb[2]) / 2; }
};

struct Row {
  AttentionProblem problem;
  AttentionVariant variant;
  /// The recorded kernels with a warm L2, and kernels that noted the time of every sixteenth step
  /// with an empty one.
  std::array<Session, 2> sessions;
  double predicted_mb = 0.0;

  double error(std::size_t session) const {
    return predicted_mb / sessions[session].median_mb() - 1;
  }
  /// It reads more than Q, K and V once, so that what a warm L2 kept does not count.
  bool counts(std::size_t session) const {
    return sessions[session].measured() && sessions[session].median_mb() * 1e6 >
                                               static_cast<double>(compulsory_bytes(problem).read);
  }
  bool repeats() const {
    const double ratio = sessions[0].median_mb() / sessions[1].median_mb();
    return std::max(ratio, 1 / ratio) <= 1.25;
  }
};

struct Measured {
  Row row;
  Session session;
};

Measured parse_row(const std::string& line) {
  const std::vector<std::string> fields = split_line(line);
  const auto number = [&fields](std::size_t i) { return std::stoi(fields.at(i)); };
  Measured measured;
  measured.row.problem = {.heads_q = number(2),
                          .heads_kv = number(2),
                          .seq_q = number(0),
                          .seq_kv = number(0),
                          .head_dim = number(1),
                          .causal = number(3) == 1};
  measured.row.variant = {.tile_m = 128,
                          .tile_n = 64,
                          .warps = 8,
                          .stages = number(6),
                          .order = enumerator<Order>(fields.at(7)),
                          .persistence = enumerator<Persistence>(fields.at(4)),
                          .swizzle = enumerator<AttentionSwizzle>(fields.at(5))};
  std::vector<double>& runs = measured.session.runs_mb;
  for (std::size_t i = 8; i < 12; ++i) {
    runs.push_back(std::stod(fields.at(i)) / 1e6);
  }
  std::sort(runs.begin(), runs.end());
  return measured;
}

/// Both sessions side by side, in the order of the first.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> joined;
    const std::array files{SWR_DRAM_READS, SWR_DRAM_READS_TRACED};
    for (std::size_t session = 0; session < files.size(); ++session) {
      std::ifstream file(files[session]);
      std::string line;
      std::getline(file, line);  // Names.
      while (std::getline(file, line)) {
        const Measured measured = parse_row(line);
        auto place = std::find_if(joined.begin(), joined.end(), [&](const Row& row) {
          return row.problem == measured.row.problem && row.variant == measured.row.variant;
        });
        if (place == joined.end()) {
          joined.push_back(measured.row);
          place = joined.end() - 1;
          place->predicted_mb = predicted_read_mb(place->problem, place->variant, 1);
        }
        place->sessions[session] = measured.session;
      }
    }
    return joined;
  }();
  return all;
}

const std::string& published() {
  static const std::string text = bytes_of(SWR_L2_MODEL_DOC);
  return text;
}

std::string session_cells(const Row& row, std::size_t session) {
  const Session& measured = row.sessions[session];
  if (!measured.measured()) {
    return " | | |";
  }
  char text[96];
  std::snprintf(text, sizeof text, " %.0f | %.0f to %.0f |", measured.median_mb(),
                measured.runs_mb.front(), measured.runs_mb.back());
  char error[32] = " warm |";
  if (row.counts(session)) {
    std::snprintf(error, sizeof error, " %+.0f %% |", 100 * row.error(session));
  }
  return std::string(text) + error;
}

std::string table_row(const Row& row) {
  char text[160];
  std::snprintf(text, sizeof text, "| s%d d%d h%d%s | %s %s st%d %s | %.0f |",
                attention(row.problem).seq_q, attention(row.problem).head_dim,
                attention(row.problem).heads_q, attention(row.problem).causal ? " causal" : "",
                std::string(to_string(attention(row.variant).persistence)).c_str(),
                std::string(to_string(attention(row.variant).swizzle)).c_str(),
                attention(row.variant).stages,
                std::string(to_string(attention(row.variant).order)).c_str(), row.predicted_mb);
  return text + session_cells(row, 0) + session_cells(row, 1);
}

/// A sentence about the errors of the rows of a session that are of interest.
template <typename Wanted>
std::string summary(const char* name, std::size_t session, Wanted wanted) {
  std::vector<double> errors;
  for (const Row& row : rows()) {
    if (row.counts(session) && wanted(row)) {
      errors.push_back(std::abs(row.error(session)));
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

/// Of the rows that both sessions measured past L2.
std::string repeatability() {
  int both = 0;
  int repeats = 0;
  double worst = 1.0;
  for (const Row& row : rows()) {
    if (row.counts(0) && row.counts(1)) {
      ++both;
      repeats += row.repeats();
      const double ratio = row.sessions[0].median_mb() / row.sessions[1].median_mb();
      worst = std::max({worst, ratio, 1 / ratio});
    }
  }
  char text[160];
  std::snprintf(text, sizeof text,
                "The medians of the two sessions are within 25 %% of each other in %d of %d rows; "
                "the worst differ by a factor of %.1f.",
                repeats, both, worst);
  return text;
}

struct OrderPair {
  const Row* cyclic = nullptr;
  const Row* sawtooth = nullptr;

  /// By how much sawtooth reads less in the session; 0 when the two are within 5 %.
  double saving_mb(std::size_t session) const {
    if (cyclic == nullptr || sawtooth == nullptr || !cyclic->sessions[session].measured() ||
        !sawtooth->sessions[session].measured()) {
      return 0.0;
    }
    const double cyclic_mb = cyclic->sessions[session].median_mb();
    const double saving = cyclic_mb - sawtooth->sessions[session].median_mb();
    return std::abs(saving) > 0.05 * cyclic_mb ? saving : 0.0;
  }
};

std::vector<OrderPair> order_pairs() {
  std::map<std::pair<std::string, AttentionVariant>, OrderPair> pairs;
  for (const Row& row : rows()) {
    AttentionVariant either = row.variant;
    either.order = Order::cyclic;
    OrderPair& pair = pairs[{to_string(row.problem), either}];
    (attention(row.variant).order == Order::cyclic ? pair.cyclic : pair.sawtooth) = &row;
  }
  std::vector<OrderPair> all;
  for (const auto& [key, pair] : pairs) {
    all.push_back(pair);
  }
  return all;
}

std::string order_summary(const char* name, std::size_t session) {
  int clear = 0;
  int right = 0;
  for (const OrderPair& pair : order_pairs()) {
    const double saving = pair.saving_mb(session);
    if (saving != 0.0) {
      ++clear;
      right += saving * (pair.cyclic->predicted_mb - pair.sawtooth->predicted_mb) > 0;
    }
  }
  char text[128];
  std::snprintf(text, sizeof text, "%s: the order that reads less is named in %d of %d pairs", name,
                right, clear);
  return text;
}

std::string order_repeatability() {
  int both = 0;
  int turned = 0;
  for (const OrderPair& pair : order_pairs()) {
    const double product = pair.saving_mb(0) * pair.saving_mb(1);
    both += product != 0.0;
    turned += product < 0.0;
  }
  char text[128];
  std::snprintf(text, sizeof text,
                "Of %d pairs that differ clearly in both sessions, %d differ the other way round",
                both, turned);
  return text;
}

TEST(DramReads, EveryPairIsPublishedAsMeasuredAndModelled) {
  ASSERT_GE(rows().size(), 24U);
  for (const Row& row : rows()) {
    EXPECT_THAT(published(), HasSubstr(table_row(row) + "\n"));
  }
  const auto causal = [](const Row& row) { return attention(row.problem).causal; };
  const auto full = [](const Row& row) { return !attention(row.problem).causal; };
  const auto any = [](const Row&) { return true; };
  const auto repeating = [](const Row& row) {
    return row.counts(0) && row.counts(1) && row.repeats();
  };
  EXPECT_THAT(published(), HasSubstr(summary("Session 1, without a mask", 0, full)));
  EXPECT_THAT(published(), HasSubstr(summary("Session 1, causal", 0, causal)));
  EXPECT_THAT(published(), HasSubstr(summary("Session 1, together", 0, any)));
  EXPECT_THAT(published(), HasSubstr(summary("Session 2, causal", 1, causal)));
  EXPECT_THAT(published(), HasSubstr(summary("Session 1, rows that repeat", 0, repeating)));
  EXPECT_THAT(published(), HasSubstr(summary("Session 2, rows that repeat", 1, repeating)));
  EXPECT_THAT(published(), HasSubstr(repeatability()));
  EXPECT_THAT(published(), HasSubstr(order_summary("Session 1", 0)));
  EXPECT_THAT(published(), HasSubstr(order_summary("Session 2", 1)));
  EXPECT_THAT(published(), HasSubstr(order_repeatability()));
}

TEST(DramReads, WithoutAMaskEveryPairIsWithin25Percent) {
  for (const Row& row : rows()) {
    if (!attention(row.problem).causal && row.counts(0)) {
      EXPECT_LE(std::abs(row.error(0)), 0.25) << table_row(row);
    }
  }
}

}  // namespace
}  // namespace swr
