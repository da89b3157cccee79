// SPDX-License-Identifier: MIT
// A tuning run as it happens, for programs: one JSON object per line. docs/output.md lists the
// events.
#pragma once

#include "core/json.h"
#include "tuner/run/progress.h"
#include "tuner/run/tuner.h"

#include <cstddef>
#include <iosfwd>
#include <mutex>
#include <string>

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

}  // namespace swr
