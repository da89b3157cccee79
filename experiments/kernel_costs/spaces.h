// SPDX-License-Identifier: MIT
// Recorded spaces, each variant with all that its predicted time is made of beside the costs.
#pragma once

#include "model/profile/gpu_profile.h"
#include "operations/attention/model/l2_traffic.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/result.h>

#include <Eigen/Core>
#include <cstddef>
#include <string>
#include <vector>

namespace swr::fit {

/// A measured variant and all that its predicted time is made of beside the costs.
struct Row {
  AttentionVariant variant;
  KernelResources resources;
  int ctas_per_sm = 0;
  double measured_us = 0.0;
  double weight = 0.0;
  ScheduleShape shape;
  L2Traffic traffic;
};

struct Space {
  std::string name;
  AttentionProblem problem;
  std::vector<Row> rows;
};

using Spaces = std::vector<const Space*>;

/// The portable family's measured variants of every recorded space of the files, in their order.
/// Throws: Error when one is of another GPU than the profile's, or of no attention.
std::vector<Space> read_spaces(const std::vector<std::string>& files, const GpuProfile& profile);

Spaces all_of(const std::vector<Space>& spaces);

/// Walks the schedules of all spaces through L2, each as long as the profile's costs make its
/// steps.
void walk_all(std::vector<Space>& spaces, const GpuProfile& profile);

/// Of a row that was walked.
Prediction predict_row(const Space& space, const Row& row, const GpuProfile& profile);

/// Predicted times, space after space.
Eigen::VectorXd predict(const Spaces& spaces, const GpuProfile& profile);

}  // namespace swr::fit
