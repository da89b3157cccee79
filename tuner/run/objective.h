// SPDX-License-Identifier: MIT
// What tuning looks for: the variant for which a number is the smallest. That is its time, its
// energy, their product, or what a user's expression makes of the metrics (docs/energy.md).
#pragma once

#include "kernel_spec/expression/expression.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <optional>
#include <string>
#include <vector>

namespace swr {

/// Immutable; safe from any thread.
class Objective {
 public:
  /// "time", "energy", "edp" (energy times time), or an expression over metric_names(). The default
  /// is time.
  /// Throws: Error{invalid_argument} naming the metric that is not known, or why the expression
  /// cannot be computed: tried at once with made-up metrics, so that no run ends in it.
  explicit Objective(std::string text = "time");

  /// As it is stored.
  const std::string& text() const { return text_; }
  bool is_time() const;
  bool needs_energy() const;

  /// Of a measured result whose time is `time_us`; empty where a metric that it reads is not known.
  /// Throws: Error{invalid_argument} where it has no value, or none above 0.
  std::optional<double> value(const Problem& problem, const DeviceInfo& device,
                              const VariantResult& result, double time_us) const;

  /// Those of CSV files and reports, and shorter names of some (docs/energy.md).
  static std::vector<std::string> metric_names();

 private:
  std::string text_;
  kernel_spec::BoundExpression expression_;
};

}  // namespace swr
