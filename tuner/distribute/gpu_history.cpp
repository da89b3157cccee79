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

}  // namespace swr
