// SPDX-License-Identifier: MIT
#include "report/event_log.h"

#include "core/number_text.h"
#include "report/report.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <ostream>
#include <utility>

namespace swr {

void JsonLines::write(const Json& object) {
  const std::lock_guard lock(mutex_);
  out_ << object.dump() << "\n" << std::flush;
}

EventLog::EventLog(JsonLines& lines, Json common) : lines_(lines), common_(std::move(common)) {}

void EventLog::announce(const Problem& problem, const DeviceInfo& device, Provenance provenance) {
  // The event comes first in its line.
  announced_ = {{"event", "start"},
                {"problem", problem},
                {"device", device},
                {"provenance", std::string(to_string(provenance))}};
}

void EventLog::begin(const std::string& title, std::size_t total) {
  done_ = 0;
  best_us_ = 0.0;
  Json event = std::exchange(announced_, nullptr);
  event["event"] = "start";
  event["title"] = title;
  event["variants"] = total;
  write(event);
}

void EventLog::advance(const VariantResult& result) { tried(result, false); }
void EventLog::known(const VariantResult& result) { tried(result, true); }
void EventLog::end() {}

void EventLog::phase(const std::string& doing) {
  if (!doing.empty()) {
    write({{"event", "phase"}, {"doing", doing}});
  }
}

void EventLog::tried(const VariantResult& result, bool is_known) {
  const bool ok = result.state == ResultState::ok;
  ++done_;
  write({{"event", "variant"},
         {"done", done_},
         {"key", to_key(result.variant)},
         {"state", std::string(to_string(result.state))},
         {"time_us", ok ? Json(result.time_us()) : Json()},
         {"detail", result.detail},
         {"known", is_known}});
  if (ok && (best_us_ <= 0.0 || result.time_us() < best_us_)) {
    best_us_ = result.time_us();
    write({{"event", "best"},
           {"done", done_},
           {"key", to_key(result.variant)},
           {"time_us", best_us_}});
  }
}

void EventLog::finish(const TuneReport& report) {
  const bool were_held = !report.finalists.empty() || !report.undecided_because.empty();
  if (were_held) {
    Json event = {{"event", "finals"},
                  {"undecided_because", report.undecided_because},
                  {"finalists", Json::array()}};
    for (const Finalist& finalist : report.finalists) {
      event["finalists"].push_back({{"key", to_key(finalist.result.variant)},
                                    {"ratio", finalist.ratio},
                                    {"tied", finalist.tied}});
    }
    write(event);
  }
  if (!report.choice.ranked.empty()) {
    Json event = {{"event", "choice"}, {"objective", report.objective}, {"ranked", Json::array()}};
    for (const RankedVariant& one : report.choice.ranked) {
      event["ranked"].push_back({{"key", to_key(one.variant)},
                                 {"value", one.value},
                                 {"ratio", one.ratio},
                                 {"tied", one.tied}});
    }
    write(event);
  }
  const VariantResult* best = report.best();
  write({{"event", "end"},
         {"best", best != nullptr ? Json(to_key(best->variant)) : Json()},
         {"time_us", best != nullptr ? Json(best->time_us()) : Json()},
         {"variants", report.results.size()},
         {"known", report.known},
         {"interrupted", report.interrupted},
         {"out_of_time", report.out_of_time},
         {"total_s", report.times.total_s},
         {"device_idle_s", report.times.device_idle_s()}});
}

void EventLog::write(Json event) {
  using namespace std::chrono;
  constexpr double kPerSecond = 1e3;  // Milliseconds are fine enough, and short.
  const auto at = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  event["at"] = static_cast<double>(at) / kPerSecond;
  event.update(common_);
  lines_.write(event);
}

void ProgressPair::begin(const std::string& title, std::size_t total) {
  first_.begin(title, total);
  second_.begin(title, total);
}
void ProgressPair::advance(const VariantResult& result) {
  first_.advance(result);
  second_.advance(result);
}
void ProgressPair::known(const VariantResult& result) {
  first_.known(result);
  second_.known(result);
}
void ProgressPair::kernel(bool from_cache) {
  first_.kernel(from_cache);
  second_.kernel(from_cache);
}
void ProgressPair::phase(const std::string& doing) {
  first_.phase(doing);
  second_.phase(doing);
}
void ProgressPair::ranked(const std::vector<RankedGuess>& first) {
  first_.ranked(first);
  second_.ranked(first);
}
void ProgressPair::tick() {
  first_.tick();
  second_.tick();
}
void ProgressPair::device_idle(double idle_s) {
  first_.device_idle(idle_s);
  second_.device_idle(idle_s);
}
void ProgressPair::end() {
  first_.end();
  second_.end();
}

namespace {

/// How much slower the run found a variant than its own choice. Shared rounds say it best.
double regret(const TuneReport& run, const Variant& variant) {
  for (const Finalist& finalist : run.finalists) {
    if (finalist.result.variant == variant) {
      return std::max(0.0, finalist.ratio - 1.0);
    }
  }
  for (const VariantResult& result : run.results) {
    if (result.variant == variant && result.state == ResultState::ok) {
      return std::max(0.0, result.time_us() / run.best()->time_us() - 1.0);
    }
  }
  return std::numeric_limits<double>::infinity();
}

double regret_by_own_times(std::span<const TuneReport> runs, const std::vector<Variant>& choices) {
  double worst = 0.0;
  for (const TuneReport& judge : runs) {
    for (const Variant& choice : choices) {
      worst = std::max(worst, regret(judge, choice));
    }
  }
  return worst;
}

/// Share of the problems that `holds` for; 1 without problems.
template <typename Holds>
double share(std::span<const Agreement> agreements, Holds&& holds) {
  const auto count = std::ranges::count_if(agreements, holds);
  return agreements.empty() ? 1.0
                            : static_cast<double>(count) / static_cast<double>(agreements.size());
}

}  // namespace

bool Agreement::is_identical() const {
  return std::all_of(choices.begin(), choices.end(),
                     [this](const Variant& choice) { return choice == choices.front(); });
}

Agreement compare_runs(std::span<const TuneReport> runs, const MeetAgain& meet_again) {
  Agreement agreement;
  agreement.problem = runs.front().problem;
  for (const TuneReport& run : runs) {
    agreement.choices.push_back(run.best()->variant);
  }
  if (agreement.is_identical()) {
    return agreement;
  }
  std::vector<Variant> distinct = agreement.choices;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const std::vector<double> slowdowns = meet_again(distinct);
  agreement.met = !slowdowns.empty();
  agreement.worst_regret =
      agreement.met ? std::ranges::max(slowdowns) : regret_by_own_times(runs, agreement.choices);
  return agreement;
}

double identical_share(std::span<const Agreement> agreements) {
  return share(agreements, &Agreement::is_identical);
}

double tied_share(std::span<const Agreement> agreements, double tie_threshold) {
  return share(agreements, [tie_threshold](const Agreement& one) {
    return one.is_identical() || one.worst_regret < tie_threshold;
  });
}

double worst_regret(std::span<const Agreement> agreements) {
  double worst = 0.0;
  for (const Agreement& agreement : agreements) {
    worst = std::max(worst, agreement.worst_regret);
  }
  return worst;
}

void print_agreements(std::ostream& out, std::span<const Agreement> agreements,
                      double tie_threshold) {
  for (const Agreement& agreement : agreements) {
    out << to_string(agreement.problem) << ": ";
    if (agreement.is_identical()) {
      out << "same choice " << agreement.choices.size() << " times\n";
      continue;
    }
    out << "regret up to " << percent_text(agreement.worst_regret, 3)
        << (agreement.met ? " in shared rounds\n" : " by the runs' own times\n");
    for (const Variant& choice : agreement.choices) {
      out << "  chose " << describe(choice) << "\n";
    }
  }
  out << "identical choices: " << percent_text(identical_share(agreements), 3) << " of "
      << agreements.size() << " problems ("
      << percent_text(tied_share(agreements, tie_threshold), 3)
      << " identical or apart by less than " << percent_text(tie_threshold, 3) << "); worst regret "
      << percent_text(worst_regret(agreements), 3) << "\n";
}

Json agreements_record(std::span<const Agreement> agreements, double tie_threshold) {
  Json record = {{"identical_share", identical_share(agreements)},
                 {"tied_share", tied_share(agreements, tie_threshold)},
                 {"tie_threshold", tie_threshold},
                 {"worst_regret", worst_regret(agreements)},
                 {"problems", Json::array()}};
  for (const Agreement& agreement : agreements) {
    Json one = {{"problem", agreement.problem},
                {"identical", agreement.is_identical()},
                {"worst_regret", agreement.worst_regret},
                {"met_in_shared_rounds", agreement.met},
                {"choices", Json::array()}};
    for (const Variant& choice : agreement.choices) {
      one["choices"].push_back(to_key(choice));
    }
    record["problems"].push_back(std::move(one));
  }
  return record;
}

}  // namespace swr
