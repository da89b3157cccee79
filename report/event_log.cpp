// SPDX-License-Identifier: MIT
#include "report/event_log.h"

#include <chrono>
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

}  // namespace swr
