// SPDX-License-Identifier: MIT
// A tuning run as it happens, for programs: one JSON object per line. docs/output.md lists the
// events.
#pragma once

#include "core/json.h"
#include "tuner/run/progress.h"
#include "tuner/run/tuner.h"

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// JSON objects, a line each, from any number of threads. Each line is flushed, so that a reader
/// sees it at once.
class JsonLines {
 public:
  explicit JsonLines(std::ostream& out) : out_(out) {}
  void write(const Json& object);

 private:
  std::ostream& out_;
  std::mutex mutex_;
};

/// Used by one thread; several may share the lines.
class EventLog final : public Progress {
 public:
  /// `common` holds fields that every event gets, such as which GPU it is about.
  explicit EventLog(JsonLines& lines, Json common = Json::object());

  /// Whose run begins next. Call it before tune().
  void announce(const Problem& problem, const DeviceInfo& device, Provenance provenance);
  /// How the run ended. Call it after tune().
  void finish(const TuneReport& report);

  void begin(const std::string& title, std::size_t total) override;
  void advance(const VariantResult& result) override;
  void known(const VariantResult& result) override;
  void phase(const std::string& doing) override;
  void end() override;

 private:
  void tried(const VariantResult& result, bool is_known);
  void write(Json event);

  JsonLines& lines_;
  Json common_;
  Json announced_;
  std::size_t done_ = 0;
  double best_us_ = 0.0;  ///< 0 while nothing succeeded.
};

/// Passes everything on to two others.
class ProgressPair final : public Progress {
 public:
  ProgressPair(Progress& first, Progress& second) : first_(first), second_(second) {}

  void begin(const std::string& title, std::size_t total) override;
  void advance(const VariantResult& result) override;
  void known(const VariantResult& result) override;
  void kernel(bool from_cache) override;
  void phase(const std::string& doing) override;
  void ranked(const std::vector<RankedGuess>& first) override;
  void tick() override;
  void device_idle(double idle_s) override;
  void end() override;

 private:
  Progress& first_;
  Progress& second_;
};

// Whether tuning again gives the same answer, and what it costs when it does not.

/// Independent runs of one problem.
struct Agreement {
  Problem problem;
  /// What each run chose.
  std::vector<Variant> choices;
  /// The most that one run's choice is slower than another's, as a share; 0 when all chose the
  /// same, infinite when a choice failed elsewhere.
  double worst_regret = 0.0;
  /// True when the choices met in shared rounds; else the regret is by the runs' own times.
  bool met = false;

  bool is_identical() const;
};

/// How much slower each of several choices is than the fastest of them, as a share, by rounds that
/// they share; empty when it cannot be told.
using MeetAgain = std::function<std::vector<double>(std::span<const Variant>)>;

/// Choices that differ meet again. Without an answer the regret is by the times of the other runs.
/// Requires: the same problem in all; each has a best variant.
Agreement compare_runs(std::span<const TuneReport> runs, const MeetAgain& meet_again);

/// Share of the problems whose runs all chose the same; 1 without problems.
double identical_share(std::span<const Agreement> agreements);
/// The same, where choices that differ by less than the threshold count as one.
double tied_share(std::span<const Agreement> agreements, double tie_threshold);
double worst_regret(std::span<const Agreement> agreements);

void print_agreements(std::ostream& out, std::span<const Agreement> agreements,
                      double tie_threshold);
Json agreements_record(std::span<const Agreement> agreements, double tie_threshold);

}  // namespace swr
