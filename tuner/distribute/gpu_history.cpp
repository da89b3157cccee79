// SPDX-License-Identifier: MIT
#include "tuner/distribute/gpu_history.h"

#include "core/number_text.h"
#include "core/operation.h"
#include "core/text_table.h"
#include <swr/constraints.h>
#include <swr/error.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

namespace swr {
namespace {

/// The median of one kernel, timed on two occasions, is off by 2.3 % one time in a hundred on a
/// steady GPU (docs/measuring.md).
constexpr double kNoise = 0.03;

std::vector<double> times_of(const GpuHistory& history) {
  std::vector<double> times_us;
  for (const GpuReference& reference : history.references) {
    if (reference.state == ResultState::ok) {
      times_us.push_back(reference.median_us);
    }
  }
  return times_us;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<GpuSpeed> speed_of(const GpuHistory& history) {
  const std::vector<double> times_us = times_of(history);
  if (times_us.empty()) {
    return std::nullopt;
  }
  const auto [fastest, slowest] = std::ranges::minmax(times_us);
  return GpuSpeed{.first_us = times_us.front(),
                  .last_us = times_us.back(),
                  .median_us = median_of(times_us),
                  .spread = slowest / fastest - 1.0};
}

/// The problems that a GPU tuned to their end.
std::size_t tuned(const GpuHistory& history) {
  return static_cast<std::size_t>(std::ranges::count_if(
      history.references, [](const auto& reference) { return !reference.tuned.empty(); }));
}

std::string share_text(double share) {
  constexpr double kPercent = 100.0;
  return significant_text(share * kPercent, 2) + " %";
}

std::vector<std::string> row_of(const GpuHistory& history, const std::optional<GpuSpeed>& speed) {
  std::vector<std::string> cells{std::to_string(history.gpu), history.card,
                                 std::to_string(tuned(history)),
                                 std::to_string(history.references.size())};
  if (speed) {
    cells.insert(cells.end(), {time_text(speed->first_us), time_text(speed->last_us),
                               change_text(speed->first_us, speed->last_us),
                               share_text(speed->spread), share_text(speed->behind)});
  } else {
    cells.resize(9, "-");
  }
  return cells;
}

void print_notes(std::ostream& out, const GpuHistory& history,
                 const std::optional<GpuSpeed>& speed) {
  const std::string name = "GPU " + std::to_string(history.gpu);
  if (!history.lost_because.empty()) {
    out << name << " was lost: " << history.lost_because << "\n";
  }
  if (speed && speed->spread > kNoise) {
    out << name << " drifted by " << share_text(speed->spread)
        << ": compare its times with care, and look at its clocks and temperature\n";
  }
  if (speed && speed->behind > kNoise) {
    out << name << " is " << share_text(speed->behind)
        << " slower than the fastest: its times are not those of an equal card\n";
  }
}

Json speed_json(const GpuSpeed& speed) {
  return {{"first_us", speed.first_us},
          {"last_us", speed.last_us},
          {"median_us", speed.median_us},
          {"spread", speed.spread},
          {"behind_fastest", speed.behind}};
}

}  // namespace

Problem reference_problem() {
  for (const Operation* const operation : operations()) {
    if (const auto problem = operation->reference_problem()) {
      return *problem;
    }
  }
  throw Error(ErrorCode::not_found, "no operation has a problem that GPUs can be compared by");
}

GpuReference measure_reference(Evaluator& evaluator, const KernelSource& kernels) {
  const Problem problem = reference_problem();
  const Variant variant = default_variant(problem, evaluator.device());
  GpuReference reference{.kernel = to_string(problem) + ", " + to_key(variant)};
  CompiledKernel kernel;
  try {
    kernel = kernels(variant);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile_failed) {
      throw;
    }
    reference.state = ResultState::compile;
    return reference;
  }
  const VariantResult result = evaluator.evaluate(problem, variant, kernel);
  reference.state = result.state;
  if (const Measurement* const measurement = result.measurement()) {
    reference.median_us = measurement->median_us;
    reference.condition = measurement->after;
  }
  return reference;
}

std::vector<std::optional<GpuSpeed>> gpu_speeds(std::span<const GpuHistory> histories) {
  std::vector<std::optional<GpuSpeed>> speeds;
  double fastest_us = std::numeric_limits<double>::infinity();
  for (const GpuHistory& history : histories) {
    speeds.push_back(speed_of(history));
    fastest_us = speeds.back() ? std::min(fastest_us, speeds.back()->median_us) : fastest_us;
  }
  for (auto& speed : speeds) {
    if (speed) {
      speed->behind = speed->median_us / fastest_us - 1.0;
    }
  }
  return speeds;
}

void print_gpu_histories(std::ostream& out, std::span<const GpuHistory> histories,
                         std::size_t width) {
  using Align = TextTable::Align;
  TextTable table({{"GPU"},
                   {"card", Align::left},
                   {"problems"},
                   {"references"},
                   {"first"},
                   {"last"},
                   {"drift"},
                   {"spread"},
                   {"behind fastest"}});
  const auto speeds = gpu_speeds(histories);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    table.add_row(row_of(histories[i], speeds[i]));
  }
  table.print(out, {.width = width});
  for (std::size_t i = 0; i < histories.size(); ++i) {
    print_notes(out, histories[i], speeds[i]);
  }
}

Json gpu_histories_record(std::span<const GpuHistory> histories) {
  Json record = Json::array();
  const auto speeds = gpu_speeds(histories);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const GpuHistory& history = histories[i];
    Json one = {{"gpu", history.gpu},
                {"card", history.card},
                {"problems", tuned(history)},
                {"lost_because", history.lost_because},
                {"speed", speeds[i] ? speed_json(*speeds[i]) : Json()},
                {"references", Json::array()}};
    for (const GpuReference& reference : history.references) {
      const bool ok = reference.state == ResultState::ok;
      one["references"].push_back({{"tuned", reference.tuned},
                                   {"kernel", reference.kernel},
                                   {"state", std::string(to_string(reference.state))},
                                   {"median_us", ok ? Json(reference.median_us) : Json()},
                                   {"condition", reference.condition}});
    }
    record.push_back(std::move(one));
  }
  return record;
}

/// One GPU's part; the team's mutex guards it.
class TeamProgress::Member final : public Progress {
 public:
  Member(TeamProgress& team, int gpu) : team_(team), name_("GPU " + std::to_string(gpu)) {}

  void begin(const std::string& title, std::size_t total) override {
    const std::lock_guard lock(team_.mutex_);
    total_ = total;
    done_ = 0;
    works_ = true;
    phase_.clear();
    team_.line_.print(name_ + ": " + title);
  }
  void advance(const VariantResult& result) override {
    team_.update([&] {
      ++team_.tried_;
      count(result);
    });
  }
  void known(const VariantResult& result) override {
    team_.update([&] { count(result); });
  }
  void end() override {
    team_.update([&] {
      works_ = false;
      phase_.clear();
      ++team_.runs_done_;
    });
  }

  void phase(const std::string& doing) override {
    team_.update([&] { phase_ = doing; });
  }
  void tick() override { team_.tick(); }

  /// Requires: the team's mutex is held.
  bool works() const { return works_; }

  /// "GPU 1 40/96", and what it does where that is not evaluating.
  std::string status() const {
    return name_ + " " +
           (works_ ? std::to_string(done_) + "/" + std::to_string(std::max(total_, done_)) : "-") +
           (phase_.empty() ? "" : " " + phase_);
  }

 private:
  void count(const VariantResult& result) {
    ++done_;
    if (result.state != ResultState::ok) {
      ++team_.failures_[result.state];
    }
  }

  TeamProgress& team_;
  std::string name_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  bool works_ = false;
  std::string phase_;
};

TeamProgress::TeamProgress(std::ostream& out, bool redraw, std::span<const int> gpus,
                           std::size_t runs, StatusLine::Clock clock, std::size_t width)
    : line_(out, redraw, std::move(clock), width), runs_(runs), started_(line_.now()) {
  for (const int gpu : gpus) {
    members_.push_back(std::make_unique<Member>(*this, gpu));
  }
}

TeamProgress::~TeamProgress() { line_.end(); }

Progress& TeamProgress::member(std::size_t number) { return *members_[number]; }

void TeamProgress::quietly(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  line_.end();
  write();
}

void TeamProgress::tick() {
  const std::lock_guard lock(mutex_);
  const bool works = std::ranges::any_of(members_, [](const auto& one) { return one->works(); });
  if (works && line_.is_due()) {
    line_.write(status());
  }
}

template <typename Change>
void TeamProgress::update(Change&& change) {
  const std::lock_guard lock(mutex_);
  change();
  if (line_.is_due()) {
    line_.write(status());
  }
}

std::string TeamProgress::status() const {
  const std::chrono::duration<double> elapsed = line_.now() - started_;
  std::string text =
      "[" + std::to_string(runs_done_) + "/" + std::to_string(std::max(runs_, runs_done_)) + "]";
  if (tried_ > 0 && elapsed.count() > 0.0) {
    text +=
        "  " + significant_text(static_cast<double>(tried_) / elapsed.count(), 3) + " variants/s";
  }
  for (const auto& member : members_) {
    text += "  " + member->status();
  }
  return text + failures_text(failures_);
}

}  // namespace swr
