// SPDX-License-Identifier: MIT
#include "tuner/report.h"

#include "tuner/metrics.h"
#include "tuner/number_text.h"
#include "tuner/text_table.h"
#include "tuner/text_wrap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <utility>

namespace swr {
namespace {

constexpr std::string_view kTimeKey = "time_us";

std::string tile_text(const AttentionVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n);
}
std::string tile_text(const GemmVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n) + "x" +
         std::to_string(variant.tile_k);
}

/// The choices that only the Hopper family has.
std::string hopper_text(const AttentionVariant& variant) {
  std::string text(to_string(variant.mainloop));
  text += variant.p_operand == POperand::shared ? ", P shared" : "";
  text += variant.exp2_fma_eighths > 0
              ? ", " + std::to_string(variant.exp2_fma_eighths) + "/8 exp2 by fma"
              : "";
  text += variant.unroll > 1 ? ", unroll " + std::to_string(variant.unroll) : "";
  return text;
}

/// Who computes a tile, and with whom.
std::string form_text(const GemmVariant& variant) {
  if (variant.family == Family::portable) {
    return std::to_string(variant.warps_m) + "x" + std::to_string(variant.warps_n) + " warps";
  }
  const bool is_clustered = variant.cluster_m * variant.cluster_n * variant.cluster_k > 1;
  const std::string along_k = variant.cluster_k > 1 ? "x" + std::to_string(variant.cluster_k) : "";
  return std::string(to_string(variant.mainloop)) + " " + std::to_string(variant.consumers) +
         (is_clustered ? ", cluster " + std::to_string(variant.cluster_m) + "x" +
                             std::to_string(variant.cluster_n) + along_k
                       : "");
}

template <typename OneVariant>
std::string persistence_text(const OneVariant& variant) {
  const std::string workers = variant.workers > 0 ? "/" + std::to_string(variant.workers) : "";
  return std::string(to_string(variant.persistence)) + workers;
}

std::string swizzle_text(const AttentionVariant& variant) {
  const std::string section =
      variant.section_heads > 0 ? "/" + std::to_string(variant.section_heads) : "";
  return std::string(to_string(variant.swizzle)) + section +
         (variant.longest_first ? ", longest first" : "");
}

std::string raster_text(const GemmVariant& variant) {
  return std::string(to_string(variant.raster)) +
         (variant.raster_group > 1 ? "/" + std::to_string(variant.raster_group) : "") +
         (variant.swizzle_stride > 0 ? ", stride " + std::to_string(variant.swizzle_stride) : "");
}

/// A column of the table that describes the variant.
struct VariantColumn {
  TextTable::Column column;
  std::function<std::string(const Variant&)> text;
};

template <typename OneVariant>
VariantColumn column(const char* title, TextTable::Align align,
                     std::string (*text)(const OneVariant&)) {
  return {{title, align},
          [text](const Variant& variant) { return text(std::get<OneVariant>(variant)); }};
}

template <typename OneVariant>
bool any_of(const TuneReport& report, bool (*predicate)(const OneVariant&)) {
  return std::ranges::any_of(report.results, [&](const VariantResult& result) {
    return predicate(std::get<OneVariant>(result.variant));
  });
}

std::vector<VariantColumn> attention_columns(const TuneReport& report) {
  using Align = TextTable::Align;
  using One = AttentionVariant;
  std::vector<VariantColumn> columns{
      column<One>("tile", Align::right, tile_text),
      column<One>("warps", Align::right, [](const One& v) { return std::to_string(v.warps); }),
      column<One>("stages", Align::right, [](const One& v) { return std::to_string(v.stages); }),
      column<One>("order", Align::left,
                  [](const One& v) { return std::string(to_string(v.order)); }),
      column<One>("persistence", Align::left, persistence_text),
      column<One>("swizzle", Align::left, swizzle_text),
  };
  if (any_of<One>(report, [](const One& v) { return v.family == Family::hopper; })) {
    columns.push_back(column<One>("family", Align::left,
                                  [](const One& v) { return std::string(to_string(v.family)); }));
    columns.push_back(column<One>("mainloop", Align::left, [](const One& v) {
      return v.family == Family::hopper ? hopper_text(v) : std::string("-");
    }));
  }
  if (any_of<One>(report, [](const One& v) { return v.kv_splits > 1; })) {
    columns.push_back(column<One>("KV splits", Align::right,
                                  [](const One& v) { return std::to_string(v.kv_splits); }));
  }
  if (any_of<One>(report, [](const One& v) { return v.pack_gqa; })) {
    columns.push_back(column<One>("heads", Align::left, [](const One& v) {
      return std::string(v.pack_gqa ? "packed" : "apart");
    }));
  }
  if (any_of<One>(report, [](const One& v) { return v.kv_copy != KvCopy::cp_async; })) {
    columns.push_back(column<One>("K and V by", Align::left,
                                  [](const One& v) { return std::string(to_string(v.kv_copy)); }));
  }
  if (any_of<One>(report, [](const One& v) { return !v.smem_swizzle; })) {
    columns.push_back(column<One>("smem rows", Align::left, [](const One& v) {
      return std::string(v.smem_swizzle ? "swizzled" : "plain");
    }));
  }
  return columns;
}

std::vector<VariantColumn> gemm_columns(const TuneReport& report) {
  using Align = TextTable::Align;
  using One = GemmVariant;
  std::vector<VariantColumn> columns{
      column<One>("tile", Align::right, tile_text),
      column<One>("family", Align::left,
                  [](const One& v) { return std::string(to_string(v.family)); }),
      column<One>("form", Align::left, form_text),
      column<One>("stages", Align::right, [](const One& v) { return std::to_string(v.stages); }),
      column<One>("persistence", Align::left, persistence_text),
      column<One>("raster", Align::left, raster_text),
  };
  if (any_of<One>(report, [](const One& v) { return v.splits > 1; })) {
    columns.push_back(
        column<One>("splits", Align::right, [](const One& v) { return std::to_string(v.splits); }));
  }
  if (any_of<One>(report, [](const One& v) { return v.k_order != Order::cyclic; })) {
    columns.push_back(column<One>("k order", Align::left,
                                  [](const One& v) { return std::string(to_string(v.k_order)); }));
  }
  return columns;
}

std::vector<VariantColumn> variant_columns(const TuneReport& report) {
  return op_of(report.problem) == Op::gemm ? gemm_columns(report) : attention_columns(report);
}

std::string brief(const AttentionVariant& variant) {
  return tile_text(variant) + "x" + std::to_string(variant.warps) + " stages " +
         std::to_string(variant.stages);
}

/// The choices for a few query rows.
std::string decode_text(const AttentionVariant& variant) {
  return (variant.kv_splits > 1 ? " splits " + std::to_string(variant.kv_splits) : "") +
         (variant.pack_gqa ? " packed heads" : "");
}

/// What a pair of orders has in common.
std::string shared_text(const AttentionVariant& variant) {
  return brief(variant) + " " + persistence_text(variant) + " " + swizzle_text(variant) +
         decode_text(variant);
}
std::string shared_text(const GemmVariant& variant) {
  return tile_text(variant) + " " + form_text(variant) + " " + persistence_text(variant) + " " +
         raster_text(variant);
}

std::string description(const AttentionVariant& variant) {
  return brief(variant) + " " + std::string(to_string(variant.order)) + " " +
         persistence_text(variant) + " " + swizzle_text(variant) + decode_text(variant) +
         (variant.smem_swizzle ? "" : " plain shared memory rows") +
         (variant.kv_copy == KvCopy::cp_async ? ""
                                              : " " + std::string(to_string(variant.kv_copy))) +
         (variant.family == Family::hopper ? " hopper " + hopper_text(variant) : "");
}
std::string description(const GemmVariant& variant) {
  return std::string(to_string(variant.family)) + " " + tile_text(variant) + " " +
         form_text(variant) + " stages " + std::to_string(variant.stages) + " " +
         persistence_text(variant) + " " + raster_text(variant) +
         (variant.splits > 1 ? " splits " + std::to_string(variant.splits) : "") +
         (variant.k_order == Order::cyclic ? "" : " k " + std::string(to_string(variant.k_order)));
}

/// Metrics with a column in the table that at least one result has.
std::vector<const Metric*> shown_metrics(const TuneReport& report) {
  std::vector<const Metric*> shown;
  for (const Metric& metric : metrics()) {
    const bool present = std::any_of(
        report.results.begin(), report.results.end(),
        [&](const auto& result) { return metric.value(report.problem, result).has_value(); });
    if (present && !metric.title.empty()) {
      shown.push_back(&metric);
    }
  }
  return shown;
}

/// Median of the screening; none where an earlier run's is not known.
std::optional<double> screening_us(const TuneReport& report, const VariantResult& result) {
  if (result.measurement() == nullptr || result.measurement()->sampling == Sampling::screening) {
    return result.time_us();
  }
  const auto found = report.screening_us.find(result.variant);
  return found != report.screening_us.end() ? std::optional(found->second) : std::nullopt;
}

/// Median in the rounds of the finals.
std::optional<double> finals_us(const VariantResult& result) {
  const bool met =
      result.measurement() != nullptr && result.measurement()->sampling == Sampling::finals;
  return met ? std::optional(result.time_us()) : std::nullopt;
}

bool has_finals(const TuneReport& report) {
  return std::ranges::any_of(
      report.results, [](const VariantResult& result) { return finals_us(result).has_value(); });
}

std::string time_or_dash(std::optional<double> time_us) {
  return time_us ? time_text(*time_us) : "-";
}

std::size_t succeeded(const TuneReport& report) {
  return static_cast<std::size_t>(
      std::count_if(report.results.begin(), report.results.end(),
                    [](const auto& result) { return result.state == ResultState::ok; }));
}

void print_table(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const auto variant_parts = variant_columns(report);
  const auto shown = shown_metrics(report);
  std::vector<TextTable::Column> columns{{"rank"}};
  for (const VariantColumn& part : variant_parts) {
    columns.push_back(part.column);
    columns.back().wraps = part.column.align == TextTable::Align::left;
  }
  const bool met = has_finals(report);
  int leave_out = 0;
  for (const Metric* metric : shown) {
    // Times are what the table is for; what stands further left explains them less.
    const bool is_time = metric->key == kTimeKey;
    columns.push_back(
        {.title = std::string(metric->title), .leave_out = is_time ? 0 : ++leave_out});
    if (met && is_time) {
      columns.push_back({"in finals"});
    }
  }
  columns.push_back({"provenance", TextTable::Align::left});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < std::min(style.top, succeeded(report)); ++i) {
    const VariantResult& result = report.results[i];
    std::vector<std::string> cells{std::to_string(i + 1)};
    for (const VariantColumn& part : variant_parts) {
      cells.push_back(part.text(result.variant));
    }
    for (const Metric* metric : shown) {
      if (met && metric->key == kTimeKey) {
        cells.push_back(time_or_dash(screening_us(report, result)));
        cells.push_back(time_or_dash(finals_us(result)));
        continue;
      }
      const auto value = metric->value(report.problem, result);
      cells.push_back(value ? metric->text(*value) : "-");
    }
    cells.emplace_back(to_string(result.provenance()));
    table.add_row(std::move(cells));
  }
  table.print(out, {.width = style.width,
                    .first_row_begin = style.bold ? "\x1b[1m" : "",
                    .first_row_end = style.bold ? "\x1b[0m" : ""});
}

void print_best(std::ostream& out, const TuneReport& report) {
  const VariantResult* best = report.best();
  if (best == nullptr) {
    out << (report.interrupted && report.results.empty()
                ? "best: unknown; interrupted before the first variant was done\n"
                : "best: none; no variant succeeded\n");
    return;
  }
  out << "best: " << describe(best->variant) << ": " << time_text(best->time_us()) << ", "
      << significant_text(tflop_per_s(report.problem, *best), 4) << " TFLOP/s ("
      << to_string(best->provenance()) << (finals_us(*best) ? ", in the finals" : "") << ")\n"
      << "  key " << to_key(best->variant) << "\n";
}

/// What a miss count is called: modelled beyond the first touch, or counted in L2.
std::optional<long long> misses(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->compulsory_misses + prediction->excess_misses;
  }
  const auto& counters = result.measurement()->counters;
  return counters && counters->l2_misses > 0 ? std::optional(counters->l2_misses) : std::nullopt;
}

void print_order_gain(std::ostream& out, const TuneReport& report) {
  const auto pair = best_order_pair(report.results);
  if (!pair) {
    return;
  }
  out << "sawtooth against cyclic, other axes equal ("
      << std::visit([](const auto& one) { return shared_text(one); }, pair->sawtooth->variant)
      << "): ";
  const auto cyclic = misses(*pair->cyclic);
  const auto sawtooth = misses(*pair->sawtooth);
  if (cyclic && sawtooth) {
    out << "L2 misses " << count_text(*cyclic) << " -> " << count_text(*sawtooth) << " ("
        << change_text(static_cast<double>(*cyclic), static_cast<double>(*sawtooth)) << "), ";
  }
  out << "time " << time_text(pair->cyclic->time_us()) << " -> "
      << time_text(pair->sawtooth->time_us()) << " ("
      << change_text(pair->cyclic->time_us(), pair->sawtooth->time_us()) << "), "
      << to_string(report.provenance) << "\n";
}

/// Failed variants by state, with one example each.
void print_failures(std::ostream& out, const TuneReport& report) {
  std::map<ResultState, std::pair<int, const VariantResult*>> by_state;
  for (const VariantResult& result : report.results) {
    if (result.state != ResultState::ok && result.state != ResultState::constraint) {
      auto& [count, example] = by_state[result.state];
      ++count;
      example = example == nullptr ? &result : example;
    }
  }
  for (const auto& [state, failures] : by_state) {
    out << "failed (" << to_string(state) << "): " << failures.first << ", e.g. "
        << describe(failures.second->variant) << ": " << failures.second->detail << "\n";
  }
}

void print_dropped(std::ostream& out, const TuneReport& report) {
  std::string list;
  for (const auto& [constraint, count] : dropped_by_constraint(report.dropped)) {
    list += (list.empty() ? "" : ", ") + constraint + " " + std::to_string(count);
  }
  if (!list.empty()) {
    out << "dropped by constraint: " << list << "\n";
  }
}

void print_missing_counters(std::ostream& out, const TuneReport& report) {
  std::set<std::string> reasons;
  for (const VariantResult& result : report.results) {
    const Measurement* measurement = result.measurement();
    if (measurement != nullptr && !measurement->counters_missing_because.empty()) {
      reasons.insert(measurement->counters_missing_because);
    }
  }
  for (const std::string& reason : reasons) {
    out << "counters missing: " << reason << "\n";
  }
}

void print_decision(std::ostream& out, const TuneReport& report) {
  if (!report.undecided_because.empty()) {
    out << "not decided in finals: " << report.undecided_because << "\n";
  }
  if (report.finalists.empty()) {
    return;
  }
  const auto tied = std::count_if(report.finalists.begin(), report.finalists.end(),
                                  [](const Finalist& finalist) { return finalist.tied; });
  std::size_t rounds = 0;
  for (const Finalist& finalist : report.finalists) {
    rounds = std::max(rounds, finalist.result.measurement()->samples_us.size());
  }
  out << "decided in " << rounds << " shared rounds of " << report.finalists.size() << " finalists"
      << (report.decided_before ? " by an earlier run" : "") << "; " << tied
      << " tied, resolved by excess misses, registers and key; times in finals are under sustained "
         "load\n";
}

/// ": 9.12 s waiting for kernels, 0.31 s evaluating": all phases that are worth a word, longest
/// first; together they are the total.
std::string phases_text(const PhaseTimes& times) {
  constexpr double kWorthAWord = 0.005;
  std::vector<std::pair<double, const char*>> phases{
      {times.compile_wait_s, "waiting for kernels"},
      {times.evaluate_s, "evaluating"},
      {times.enumerate_s + times.search_s, "choosing what to try"},
      {times.count_s, "counting"},
      {times.finals_s, "in finals"},
      {times.record_s, "recording"},
      {times.end_s, "ending compilations that were begun on suspicion"},
      {times.other_s(), "for the rest"}};
  std::ranges::stable_sort(phases, std::greater{}, [](const auto& phase) { return phase.first; });
  std::string text;
  for (const auto& [time_s, name] : phases) {
    if (time_s >= kWorthAWord) {
      text += (text.empty() ? ": " : ", ") + significant_text(time_s, 3) + " s " + name;
    }
  }
  return text;
}

void print_times(std::ostream& out, const TuneReport& report) {
  const auto seconds = [](double value) { return significant_text(value, 3) + " s"; };
  if (report.replayed) {
    out << "took " << seconds(report.times.total_s) << " to replay " << report.results.size()
        << " variants, " << seconds(report.times.search_s) << " of it for the choice of variants\n";
    return;
  }
  out << "took " << seconds(report.times.total_s) << " for " << report.results.size()
      << " variants of " << report.kernels_compiled << " kernels (" << report.kernels_from_cache
      << " from the cache)" << phases_text(report.times) << "\n";
  if (report.provenance == Provenance::measured && report.times.total_s > 0.0) {
    const PhaseTimes& times = report.times;
    out << "GPU idle " << percent_text(times.device_idle_s() / times.total_s)
        << " of the time: " << seconds(times.compile_wait_s) << " waiting for kernels, "
        << seconds(times.record_s) << " for the database, "
        << seconds(times.enumerate_s + times.search_s) << " for the choice of variants\n";
  }
}

void print_known(std::ostream& out, const TuneReport& report) {
  if (report.known > 0) {
    out << report.known << " of " << report.results.size()
        << " variants were known from an earlier run and not measured again; --force measures them "
           "anew\n";
  }
  if (report.out_of_time) {
    out << "out of time: the same command continues where this run stopped\n";
  }
}

void print_conclusions(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const std::size_t ok = succeeded(report);
  if (ok > style.top) {
    out << "... and " << ok - style.top << " more; --top N shows more, --json and --csv all\n";
  }
  out << "\n";
  print_best(out, report);
  print_decision(out, report);
  print_order_gain(out, report);
  print_failures(out, report);
  print_dropped(out, report);
  print_missing_counters(out, report);
  print_known(out, report);
  print_times(out, report);
  if (report.interrupted && !report.results.empty()) {
    out << "interrupted: " << report.results.size()
        << " variants were tried; the same command goes on\n";
  }
}

}  // namespace

std::optional<OrderPair> best_order_pair(const std::vector<VariantResult>& results) {
  std::map<Variant, OrderPair> pairs;
  // Results are ranked, so the pair that the earliest result completes or starts is the best.
  std::vector<Variant> by_rank;
  for (const VariantResult& result : results) {
    if (result.state != ResultState::ok) {
      continue;
    }
    Variant shared = result.variant;
    const Order order = order_of(shared);
    set_order(shared, Order::cyclic);
    OrderPair& pair = pairs[shared];
    (order == Order::sawtooth ? pair.sawtooth : pair.cyclic) = &result;
    by_rank.push_back(shared);
  }
  for (const Variant& shared : by_rank) {
    const OrderPair& pair = pairs[shared];
    if (pair.cyclic != nullptr && pair.sawtooth != nullptr) {
      return pair;
    }
  }
  return std::nullopt;
}

std::string tile_text(const Variant& variant) {
  if (const auto* const attention = std::get_if<AttentionVariant>(&variant)) {
    return tile_text(*attention) + "x" + std::to_string(attention->warps);
  }
  return tile_text(std::get<GemmVariant>(variant));
}

std::string describe(const Variant& variant) {
  return std::visit([](const auto& one) { return description(one); }, variant);
}

std::string describe(const DeviceInfo& device) {
  return device.name + " (sm_" + std::to_string(device.sm_arch) + ", " +
         std::to_string(device.sm_count) + " SMs, " + bytes_text(device.l2_bytes) + " L2" +
         (device.mig ? ", MIG slice)" : ")");
}

void print_report(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const bool predicted = report.provenance == Provenance::predicted;
  const std::string head = std::string(predicted ? "Predicted" : "Measured") +
                           (report.replayed ? ", replayed" : "") + ": " +
                           to_string(report.problem) + " on " + describe(report.device);
  out << wrap_lines(head, style.width) << "\n\n";
  if (succeeded(report) > 0) {
    print_table(out, report, style);
  }
  std::ostringstream text;
  print_conclusions(text, report, style);
  out << wrap_lines(text.str(), style.width);
}

}  // namespace swr
