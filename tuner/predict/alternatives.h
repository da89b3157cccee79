// SPDX-License-Identifier: MIT
// What one other choice would change, by the model.
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <string>
#include <vector>

namespace swr {

/// A variant that differs from another in one axis.
struct Alternative {
  Variant variant;
  std::string choice;       ///< As keys write it, "order=sawtooth".
  double time_ratio = 1.0;  ///< Its predicted time over that of the other.
};

/// The variant with another value of one axis, for every axis and each value of the space that is
/// legal, fastest first. Registers are estimated: nothing is compiled. Empty where the operation
/// has no model, or the model does not predict the variant.
std::vector<Alternative> alternatives(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device, int threads);

}  // namespace swr
