// SPDX-License-Identifier: MIT
// The kernels of an operation that take one structure of parameters and nothing else.
#pragma once

#include "driver/kernel_launch.h"
#include "export/package/loaded_kernels.h"

#include <array>
#include <compare>
#include <span>
#include <string>

namespace swr_package {

struct NoMemory {
  explicit NoMemory(const swr::LaunchCalls& /*calls*/) {}
};

/// What is asked, or what a kernel was tuned for, in the order of the operation's fields.
struct PlainProblem {
  Sizes lengths{};             ///< 1 where the operation has fewer sizes.
  std::array<int, 8> kinds{};  ///< What must be equal; 0 where there are fewer.

  auto operator<=>(const PlainProblem&) const = default;
  const auto& kind() const { return kinds; }
  const Sizes& sizes() const { return lengths; }
  std::string describe() const {
    std::string words = "sizes";
    for (const int length : lengths) {
      words += " " + text(length);
    }
    words += ", kind";
    for (const int one : kinds) {
      words += " " + text(one);
    }
    return words;
  }
};

/// `Kernel` has `embedded`, `problem`, fits(), and `config` with threads(), smem_bytes() and
/// ctas(params, places): the grid where so many CTAs are resident. Safe from any thread.
template <typename Kernel>
class PlainKernels {
 public:
  explicit PlainKernels(std::span<const Kernel> kernels) : kernels_(kernels) {}

  /// Enqueues one launch. Throws: Error.
  template <typename Params>
  void run(const PlainProblem& problem, Params params, CUstream stream) {
    const Ready ready = get(problem);
    const swr::CtaGrid grid{.ctas = ready.kernel->config.ctas(params, ready.places),
                            .threads = ready.kernel->config.threads(),
                            .dynamic_smem_bytes = ready.kernel->config.smem_bytes()};
    void* arguments[] = {&params};
    driver_.require(
        swr::launch_grid(driver_.launch, ready.function, grid,
                         swr::overlap_where(ready.kernel->embedded.may_overlap), stream, arguments),
        "cuLaunchKernelEx");
  }

  /// Loads the kernel of a problem and says which it is. Throws: Error.
  Choice prepare(const PlainProblem& problem) {
    const Ready ready = get(problem);
    return choice_of(*ready.kernel, problem, *ready.device);
  }

 private:
  struct Ready {
    const Kernel* kernel = nullptr;
    const Device* device = nullptr;
    CUfunction function = nullptr;
    int places = 1;  ///< CTAs that all SMs hold.
  };
  using Loaded = LoadedKernels<PlainProblem, Ready, NoMemory>;

  Ready get(const PlainProblem& problem) {
    return loaded_.get(problem, [&](typename Loaded::Context& context) {
      const Kernel& kernel = choose(kernels_, problem, context.device);
      const int smem_bytes = kernel.config.smem_bytes();
      Ready ready{&kernel, &context.device, nullptr, 1};
      ready.function = loaded_.load(context, kernel.embedded, [&](CUfunction function) {
        return swr::allow_dynamic_smem(driver_.launch, function, smem_bytes);
      });
      ready.places = driver_.resident_workers(context.device, ready.function,
                                              kernel.config.threads(), smem_bytes);
      return ready;
    });
  }

  std::span<const Kernel> kernels_;
  Driver driver_;
  Loaded loaded_{driver_};
};

}  // namespace swr_package
