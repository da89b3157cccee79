// SPDX-License-Identifier: MIT
#include "tuner/live/live_state.h"

#include <algorithm>

namespace swr {
namespace {

constexpr long long kNoGpu = -1;

/// The field, or a default where it is not there or of another type.
template <typename T>
T field(const Json& event, const char* name, T otherwise) {
  const auto found = event.find(name);
  if (found == event.end() || found->is_null()) {
    return otherwise;
  }
  try {
    return found->template get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

Json pairs_json(const std::vector<std::pair<long long, double>>& pairs) {
  Json json = Json::array();
  for (const auto& [done, time_us] : pairs) {
    json.push_back({done, time_us});
  }
  return json;
}

Json run_json(long long gpu, const LiveRun& run) {
  return {{"gpu", gpu == kNoGpu ? Json() : Json(gpu)},
          {"title", run.title},
          {"device", run.device},
          {"provenance", run.provenance},
          {"started_at", run.started_at},
          {"changed_at", run.changed_at},
          {"variants", std::max(run.variants, run.done)},
          {"done", run.done},
          {"known", run.known},
          {"failed", run.failed},
          {"phase", run.phase},
          {"best_key", run.best_key},
          {"best_us", run.best_us > 0.0 ? Json(run.best_us) : Json()},
          {"times_us", pairs_json(run.times_us)},
          {"bests_us", pairs_json(run.bests_us)},
          {"is_over", run.is_over},
          {"is_interrupted", run.is_interrupted}};
}

/// Shapes make titles of runs of files that have none.
std::string title_of(const Json& event) {
  const std::string title = field<std::string>(event, "title", "");
  if (!title.empty() || !event.contains("problem")) {
    return title;
  }
  return event["problem"].dump();
}

}  // namespace

void LiveState::take(const std::string& line) {
  const Json event = Json::parse(line, nullptr, false);
  if (event.is_discarded() || !event.is_object()) {
    ++unread_;
    return;
  }
  const std::string kind = field<std::string>(event, "event", "");
  LiveRun& run = by_gpu_[field<long long>(event, "gpu", kNoGpu)];
  if (kind == "start") {
    start(run, event);
  } else if (kind == "variant") {
    variant(run, event);
  } else if (kind == "phase") {
    run.phase = field<std::string>(event, "doing", "");
  } else if (kind == "best") {
    run.best_key = field<std::string>(event, "key", "");
    run.best_us = field<double>(event, "time_us", 0.0);
    run.bests_us.emplace_back(field<long long>(event, "done", run.done), run.best_us);
  } else if (kind == "end") {
    end(run, event);
  } else if (kind != "finals") {
    ++unread_;
  }
  run.changed_at = field<double>(event, "at", run.changed_at);
}

void LiveState::start(LiveRun& run, const Json& event) {
  // A phase may have been named before: choosing what to try comes first.
  run = LiveRun{};
  run.title = title_of(event);
  run.device = event.contains("device") && event["device"].is_object()
                   ? field<std::string>(event["device"], "name", "")
                   : "";
  run.provenance = field<std::string>(event, "provenance", "");
  run.variants = field<long long>(event, "variants", 0);
  run.started_at = field<double>(event, "at", 0.0);
}

void LiveState::variant(LiveRun& run, const Json& event) {
  run.phase.clear();
  run.done = field<long long>(event, "done", run.done + 1);
  run.known += field<bool>(event, "known", false) ? 1 : 0;
  const std::string state = field<std::string>(event, "state", "ok");
  const double time_us = field<double>(event, "time_us", 0.0);
  if (state != "ok") {
    ++run.failed[state];
  } else if (time_us > 0.0) {
    run.times_us.emplace_back(run.done, time_us);
  }
}

void LiveState::end(LiveRun& run, const Json& event) {
  run.phase.clear();
  run.is_over = true;
  run.is_interrupted = field<bool>(event, "interrupted", false);
  // The finals may have decided otherwise than the times alone.
  run.best_key = field<std::string>(event, "best", run.best_key);
  run.best_us = field<double>(event, "time_us", run.best_us);
  finished_.push_back({.title = run.title,
                       .best_key = run.best_key,
                       .best_us = run.best_us,
                       .total_s = field<double>(event, "total_s", 0.0),
                       .is_interrupted = run.is_interrupted});
}

Json LiveState::snapshot() const {
  constexpr std::size_t kMostFinished = 50;
  Json json = {{"runs", Json::array()},
               {"finished", finished_.size()},
               {"last", Json::array()},
               {"unread", unread_}};
  for (const auto& [gpu, run] : by_gpu_) {
    json["runs"].push_back(run_json(gpu, run));
  }
  const std::size_t shown = std::min(kMostFinished, finished_.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Finished& one = finished_[finished_.size() - 1 - i];
    json["last"].push_back({{"title", one.title},
                            {"best_key", one.best_key},
                            {"best_us", one.best_us > 0.0 ? Json(one.best_us) : Json()},
                            {"total_s", one.total_s},
                            {"is_interrupted", one.is_interrupted}});
  }
  return json;
}

}  // namespace swr
