// SPDX-License-Identifier: MIT
// The problems whose kernels come with swr, before anything is tuned (shipped/kernel_range.txt).
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace swr::cli {

/// A field's values in a range.
struct RangeValues {
  /// A number, or a power of two's share between two, in multiples of `step`, or a multiple of
  /// another field.
  struct Item {
    int low = 0;
    int high = 0;
    int step = 1;
    const ProblemField* of = nullptr;  ///< `low` times this one.
  };

  const ProblemField* field = nullptr;
  std::vector<Item> items;
  bool is_combined = false;  ///< Each item goes with all of the other fields', and is not drawn.
};

/// Problems of one operation: each combination of kinds with sizes that are drawn.
struct ProblemRange {
  const Operation* operation = nullptr;
  int draws = 0;  ///< Of each combination.
  std::vector<RangeValues> fields;

  /// Calls `visit` with every problem; those that make none are left out.
  void each(unsigned seed, const std::function<void(const Problem&)>& visit) const;
};

/// Kernels that no variant has, of a template without a configuration.
struct FixedTemplate {
  std::string file;
  std::vector<std::string> entries;
};

struct KernelRange {
  std::vector<ProblemRange> problems;
  std::vector<FixedTemplate> templates;
};

/// Lines of text, as shipped/kernel_range.txt describes them.
/// Throws: Error{invalid_argument} naming the line.
KernelRange parse_kernel_range(std::string_view text);

/// That of the package.
KernelRange shipped_range();

/// A kernel, and a problem that it is chosen for.
struct RangedKernel {
  std::string identity;  ///< Template and configuration: what is compiled.
  Problem problem;
  Variant variant;
  int problems = 0;  ///< Of those that were drawn, how many it is chosen for.
};

/// What is chosen for the problems of the ranges on these devices where nothing was tuned, those
/// first that are chosen most often.
std::vector<RangedKernel> untuned_kernels(const std::vector<ProblemRange>& ranges,
                                          const std::vector<DeviceInfo>& devices, unsigned seed);

}  // namespace swr::cli
