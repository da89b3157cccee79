// SPDX-License-Identifier: MIT
#include "experiments/kernel_costs/spaces.h"

#include "core/recorded_space.h"
#include "operations/attention/model/time.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <variant>

namespace swr::fit {
namespace {

/// Variants near the best decide which is chosen; the others keep the form honest.
double weight(double measured_us, double best_us) {
  constexpr double kNear = 0.05;
  constexpr double kLeast = 0.012;
  return std::exp(-(measured_us / best_us - 1) / kNear) + kLeast;
}

/// Walks each schedule through L2 as long as the profile's costs make its steps.
void walk(Space& space, const GpuProfile& profile) {
  std::map<ScheduleShape, L2Traffic> walks;
  for (Row& row : space.rows) {
    row.shape = schedule_on_gpu(space.problem, row.variant, row.ctas_per_sm, profile);
    const auto [entry, is_new] = walks.try_emplace(row.shape);
    if (is_new) {
      entry->second = simulate_l2(row.shape, profile.l2_policy());
    }
    row.traffic = entry->second;
  }
}

Space rows_of(const RecordedSpace& recorded, const std::filesystem::path& file,
              const GpuProfile& profile) {
  const auto* problem = recorded.problem.get_if<AttentionProblem>();
  if (problem == nullptr || !same_device(recorded.device, profile.device)) {
    throw Error(ErrorCode::unreadable, file.string() + " is no space of attention on " +
                                           profile.device.name +
                                           "; take it away, or name that GPU's profile");
  }
  Space space{.name = to_string(recorded.problem), .problem = *problem, .rows = {}};
  for (const VariantResult& result : recorded.results) {
    const auto& variant = result.variant.as<AttentionVariant>();
    if (result.state == ResultState::ok && variant.family == Family::portable) {
      space.rows.push_back({.variant = variant,
                            .resources = result.resources,
                            .ctas_per_sm = occupancy(result.resources, recorded.problem,
                                                     result.variant, profile.device)
                                               .ctas_per_sm,
                            .measured_us = result.time_us(),
                            .weight = weight(result.time_us(), recorded.best_us())});
    }
  }
  return space;
}

/// Spreads calls of `work` for 0 to `count` - 1 over the cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (std::size_t first = 0; first < threads; ++first) {
    pool.emplace_back([&, first] {
      for (std::size_t i = first; i < count; i += threads) {
        work(i);
      }
    });
  }
}

}  // namespace

std::vector<Space> read_spaces(const std::vector<std::string>& files, const GpuProfile& profile) {
  std::vector<Space> spaces;
  for (const std::string& file : files) {
    for (const RecordedSpace& recorded : read_recorded_spaces(file)) {
      spaces.push_back(rows_of(recorded, file, profile));
    }
  }
  walk_all(spaces, profile);
  return spaces;
}

Spaces all_of(const std::vector<Space>& spaces) {
  Spaces all;
  for (const Space& space : spaces) {
    all.push_back(&space);
  }
  return all;
}

void walk_all(std::vector<Space>& spaces, const GpuProfile& profile) {
  in_parallel(spaces.size(), [&](std::size_t i) { walk(spaces[i], profile); });
}

Prediction predict_row(const Space& space, const Row& row, const GpuProfile& profile) {
  return predict_time(space.problem, row.variant, row.resources, row.shape, row.traffic, profile);
}

Eigen::VectorXd predict(const Spaces& spaces, const GpuProfile& profile) {
  std::vector<std::pair<const Space*, const Row*>> rows;
  for (const Space* space : spaces) {
    for (const Row& row : space->rows) {
      rows.emplace_back(space, &row);
    }
  }
  Eigen::VectorXd times_us(static_cast<Eigen::Index>(rows.size()));
  in_parallel(rows.size(), [&](std::size_t i) {
    const auto& [space, row] = rows[i];
    times_us[static_cast<Eigen::Index>(i)] = predict_row(*space, *row, profile).time_us;
  });
  return times_us;
}

}  // namespace swr::fit
