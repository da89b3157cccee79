// SPDX-License-Identifier: MIT
#include "report/report.h"

#include "core/metrics.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "core/text_table.h"
#include "model/prediction_error.h"
#include "report/explain/likely_text.h"

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
constexpr std::string_view kRateKey = "tflop_per_s";
constexpr double kPercent = 100.0;

/// Metrics with a column in the table that at least one result has.
std::vector<const Metric*> shown_metrics(const TuneReport& report) {
  std::vector<const Metric*> shown;
  for (const Metric& metric : metrics()) {
    const bool present = std::any_of(
        report.results.begin(), report.results.end(),
        [&](const auto& result) { return metric.value(report.problem, result).has_value(); });
    if (present && !metric.title.empty() && !metric.on_page_alone) {
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

/// Of the device that was predicted; measured results need none.
GpuProfile report_profile(const TuneReport& report) {
  return report.provenance == Provenance::predicted ? profile_for_device(report.device)
                                                    : GpuProfile{};
}

/// TFLOP/s, and how far a prediction may be off, or what is likely where that is known. Empty where
/// the rate is unknown.
std::string rate_text(const TuneReport& report, const VariantResult& result,
                      const GpuProfile& profile) {
  const auto rate = tflop_per_s(report.problem, result);
  const Prediction* prediction = result.prediction();
  return rate ? uncertain_rate_text(*rate, prediction == nullptr ? 0.0 : prediction->relative_error,
                                    prediction_bias(report.problem, result, profile))
              : "";
}

/// Whether the model cannot tell it from the best: the times differ by less than its error.
bool is_predicted_tie(const VariantResult& best, const VariantResult& result) {
  const Prediction* prediction = result.prediction();
  return prediction != nullptr && prediction->relative_error > 0 &&
         result.time_us() <= best.time_us() * (1 + prediction->relative_error);
}

std::size_t succeeded(const TuneReport& report) {
  return static_cast<std::size_t>(
      std::count_if(report.results.begin(), report.results.end(),
                    [](const auto& result) { return result.state == ResultState::ok; }));
}

void print_table(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const auto variant_parts = report.problem.operation().columns(report.results);
  const auto shown = shown_metrics(report);
  std::vector<TextTable::Column> columns{{"rank"}};
  for (const VariantColumn& part : variant_parts) {
    columns.push_back({.title = part.title,
                       .align = part.is_number ? TextTable::Align::right : TextTable::Align::left,
                       .wraps = !part.is_number});
  }
  const bool met = has_finals(report);
  const GpuProfile profile = report_profile(report);
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
    const bool is_tie = i > 0 && is_predicted_tie(report.results.front(), result);
    std::vector<std::string> cells{is_tie ? "=" + std::to_string(i + 1) : std::to_string(i + 1)};
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
      cells.push_back(!value                    ? "-"
                      : metric->key == kRateKey ? rate_text(report, result, profile)
                                                : metric->text(*value));
    }
    cells.emplace_back(to_string(result.provenance()));
    table.add_row(std::move(cells));
  }
  table.print(out, {.width = style.width,
                    .first_row_begin = style.bold ? "\x1b[1m" : "",
                    .first_row_end = style.bold ? "\x1b[0m" : ""});
}

/// What the model ranked, where nothing was done since.
void print_ranking(std::ostream& out, const TuneReport& report) {
  out << "ranked by the model, not compiled:\n";
  for (const RankedGuess& guess : report.ranking) {
    out << "  " << time_text(guess.time_us) << "  " << describe(guess.variant) << "\n";
  }
}

void print_best(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const VariantResult* best = report.best();
  if (best == nullptr) {
    const bool is_early = report.interrupted && report.results.empty();
    out << (is_early ? "best: unknown; interrupted before the first variant was done\n"
                     : "best: none; no variant succeeded\n");
    if (is_early && !report.ranking.empty()) {
      print_ranking(out, report);
    }
    return;
  }
  const std::string rate = rate_text(report, *best, report_profile(report));
  out << "best: " << describe(best->variant) << ": " << time_text(best->time_us())
      << (rate.empty() ? "" : ", " + rate + " TFLOP/s") << " (" << to_string(best->provenance())
      << (finals_us(*best) ? ", in the finals" : "") << ")\n";
  if (style.verbose) {
    out << "  key " << to_key(best->variant) << "\n";
  }
  for (const PeerTime& peer : report.peers) {
    const double ratio = peer.median_us / best->time_us();
    out << "against " << peer.call << ": " << time_text(peer.median_us) << ", "
        << significant_text(ratio, 3) << " times as long"
        << (ratio < 1.0 ? "; that call is faster\n" : "\n");
  }
  if (report.answer) {
    const VariantResult& answer = report.answer->result;
    out << "queries answer with " << describe(answer.variant) << ": " << time_text(answer.time_us())
        << " (" << to_string(answer.provenance()) << ", "
        << (report.answer->id == 0 ? "came with swr" : "found by an earlier run") << ")\n";
  }
}

/// How many variants the model cannot tell from the best.
void print_predicted_ties(std::ostream& out, const TuneReport& report, const ReportStyle& style) {
  const VariantResult* best = report.best();
  const Prediction* prediction = best != nullptr ? best->prediction() : nullptr;
  if (prediction == nullptr || !(prediction->relative_error > 0)) {
    return;
  }
  const auto tied = std::ranges::count_if(report.results, [best](const VariantResult& result) {
    return result.state == ResultState::ok && is_predicted_tie(*best, result);
  });
  out << "predicted " << predicted_ties_text(prediction->relative_error, tied - 1)
      << (tied > 1 ? " (=)\n" : "\n");
  if (report.robust && style.verbose) {
    constexpr double kVisible = 0.0005;
    const double slowdown = report.robust->slowdown;
    out << "the model cannot tell the first " << report.robust->tied << " apart ("
        << percent_text(kModelTie) << "); rank 1 "
        << (slowdown < kVisible ? "stays the best of them"
                                : "loses at most " + percent_text(slowdown, 2) + " to them")
        << " if one unit is " << percent_text(kChipDoubt) << " slower\n";
  }
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
      << pair->sawtooth->variant.operation().description_without_order(pair->sawtooth->variant)
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
  for (const auto& [constraint, count] : dropped_by_constraint(report.dropped, report.left_out)) {
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

void print_slow_clock(std::ostream& out, const TuneReport& report) {
  if (const auto slow = slow_clock(report)) {
    out << "slow: " << slow->because << "; " << slow->advice << "\n";
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

/// The results whose energy is known, by time, as far as no other one beats them in both.
void print_front(std::ostream& out, const TuneReport& report) {
  const auto times_us = comparable_times_us(report);
  std::vector<const VariantResult*> known;
  std::vector<std::pair<double, double>> points;
  for (const VariantResult& result : report.results) {
    if (result.measurement() != nullptr && result.measurement()->energy) {
      known.push_back(&result);
      points.emplace_back(times_us.at(result.variant), result.measurement()->energy->mean_mj());
    }
  }
  if (known.empty()) {
    return;
  }
  const auto front = pareto_front(points);
  out << "front of time and energy, " << front.size() << " of " << known.size() << " measured:\n";
  for (const std::size_t place : front) {
    out << "  " << time_text(points[place].first) << ", "
        << significant_text(points[place].second, 4) << " mJ, "
        << significant_text(known[place]->measurement()->energy->power_w(), 3)
        << " W: " << to_key(known[place]->variant) << "\n";
  }
  out << "an idle GPU draws "
      << significant_text(known.front()->measurement()->energy->idle_power_w, 3)
      << " W, which is in all of these\n";
}

void print_choice(std::ostream& out, const TuneReport& report) {
  const ObjectiveOutcome& choice = report.choice;
  if (!choice.missing_because.empty()) {
    out << "energy or objective unknown: " << choice.missing_because << "\n";
  }
  if (!choice.ranked.empty()) {
    const auto tied = std::ranges::count_if(choice.ranked, &RankedVariant::tied);
    out << "best by " << report.objective << ": "
        << significant_text(choice.ranked.front().value, 4) << ", of " << choice.ranked.size()
        << " variants; " << tied << " within "
        << significant_text(*choice.tie_threshold * kPercent, 2)
        << " % of the smallest, of which the fastest is taken\n";
  }
  print_front(out, report);
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
      {times.energy_s, "measuring energy"},
      {times.record_s, "recording"},
      {times.end_s, "ending compilations that were started ahead"},
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

/// Why a search ended before its limit, and how to go on.
void print_settled(std::ostream& out, const TuneReport& report) {
  if (report.expected_gain) {
    out << "ended after " << std::ranges::count_if(report.results, reached_device) << " of "
        << report.planned
        << " variants: less than a tie is to be expected of the others; --whole-budget goes on\n";
  }
}

/// What a prediction left out, and how to have it.
void print_left_out(std::ostream& out, const TuneReport& report) {
  const std::size_t tried = report.results.size();
  if (report.provenance == Provenance::predicted && !report.replayed && tried < report.space_size &&
      !report.interrupted && !report.out_of_time) {
    out << "compiled: " << tried << " of " << report.space_size
        << " variants, those that the model ranks first; --strategy exhaustive compiles all\n";
  }
}

/// What should not go unseen, in a line.
void print_what_verbose_says(std::ostream& out, const TuneReport& report) {
  const auto failed = std::ranges::count_if(report.results, [](const VariantResult& result) {
    return result.state != ResultState::ok && result.state != ResultState::constraint;
  });
  std::string text = failed > 0 ? std::to_string(failed) + " variants failed" : "";
  if (!report.undecided_because.empty()) {
    text += (text.empty() ? "" : "; ") + std::string("not decided in finals");
  }
  if (!text.empty()) {
    out << text << "; --verbose says why\n";
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
  print_best(out, report, style);
  print_slow_clock(out, report);
  print_predicted_ties(out, report, style);
  if (style.verbose) {
    print_decision(out, report);
  }
  print_choice(out, report);
  if (style.verbose) {
    print_order_gain(out, report);
    print_failures(out, report);
    print_dropped(out, report);
    print_left_out(out, report);
    print_missing_counters(out, report);
  } else {
    print_what_verbose_says(out, report);
  }
  print_settled(out, report);
  print_known(out, report);
  if (style.verbose) {
    print_times(out, report);
  }
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
    const auto order = order_of(shared);
    if (!order) {
      continue;
    }
    set_order(shared, Order::cyclic);
    OrderPair& pair = pairs[shared];
    (*order == Order::sawtooth ? pair.sawtooth : pair.cyclic) = &result;
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

/// The clocks of the middle variant, because a short kernel may be over before they have risen.
std::optional<SlowClock> slow_clock(const TuneReport& report) {
  std::vector<GpuCondition> conditions;
  for (const VariantResult& result : report.results) {
    if (result.measurement() != nullptr && result.measurement()->after.sm_clock_mhz) {
      conditions.push_back(result.measurement()->after);
    }
  }
  const auto expected_mhz = profiled_clock_mhz(report.device);
  if (conditions.empty() || !expected_mhz) {
    return std::nullopt;
  }
  const auto middle = conditions.begin() + static_cast<std::ptrdiff_t>(conditions.size() / 2);
  std::ranges::nth_element(conditions, middle, {}, &GpuCondition::sm_clock_mhz);
  return slow_clock(*middle, *expected_mhz);
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

namespace {

std::string loss_text(const std::optional<double>& loss) {
  return loss ? percent_text(*loss, 2) : "not measured";
}

std::string held_out_text(const RangePart& part) {
  return part.held_out
             ? percent_text(*part.held_out_loss, 2) + " at " + std::to_string(*part.held_out)
             : "none";
}

}  // namespace

void print_range(std::ostream& out, std::span<const RangePart> parts, std::size_t tuned,
                 std::size_t width) {
  if (parts.empty()) {
    return;
  }
  TextTable table({{.title = "from"},
                   {.title = "to"},
                   {.title = "loss at its edges"},
                   {.title = "loss left out"},
                   {.title = "variant", .align = TextTable::Align::left, .wraps = true}});
  for (const RangePart& part : parts) {
    table.add_row({std::to_string(part.from), std::to_string(part.to), loss_text(part.edge_loss),
                   held_out_text(part), describe(part.variant)});
  }
  out << "range: " << tuned << " lengths tuned, the nearest of them answers\n";
  table.print(out, {.width = width});
}

Json range_record(std::span<const RangePart> parts, std::size_t tuned) {
  Json record = {{"tuned_lengths", tuned}, {"parts", Json::array()}};
  for (const RangePart& part : parts) {
    Json one = {{"from", part.from}, {"to", part.to}, {"variant", to_key(part.variant)}};
    one["edge_loss"] = part.edge_loss ? Json(*part.edge_loss) : Json();
    one["held_out"] = part.held_out ? Json(*part.held_out) : Json();
    one["held_out_loss"] = part.held_out_loss ? Json(*part.held_out_loss) : Json();
    record["parts"].push_back(std::move(one));
  }
  return record;
}

}  // namespace swr
