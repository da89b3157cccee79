// SPDX-License-Identifier: MIT
// Kernels of a user's in this library: their launches are computed from the expressions of their
// spec, by the code that swr itself computes them with.
#pragma once

#include "export/package/plain_kernels.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace swr_package {

struct UserStep {
  std::vector<std::string> block;  ///< Expressions, all of these.
  std::vector<std::string> grid;
  std::string shared_bytes;
  std::string when;  ///< Empty: always.
  std::string repeat;
  std::vector<std::size_t> arguments;  ///< Places.
};

/// What all variants of a kernel share.
struct UserSpec {
  std::string name;
  bool is_c_dialect = false;
  std::vector<std::string> sizes;
  std::vector<std::string> parameters;
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  std::vector<std::string> constraints;
  std::vector<UserStep> steps;
  /// By argument: the __constant__ variable that it is copied to, empty for the others.
  std::vector<std::string> variables;
  /// Its sizes are compiled in, so that a kernel serves the sizes that it was compiled for.
  bool has_sizes_compiled_in = false;
};

struct UserLaunch {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  int shared_bytes = 0;
  long long times = 1;
};

/// The launches of a variant at some sizes, a step each; empty where the spec forbids it there or
/// one cannot be computed.
std::optional<std::vector<UserLaunch>> plan(const UserSpec& spec,
                                            std::span<const char* const> values,
                                            const Sizes& sizes);

struct UserKernel {
  EmbeddedKernel embedded;
  PlainProblem problem;
  std::span<const char* const> values;   ///< Of the parameters, in their order.
  std::span<const char* const> entries;  ///< A function for each step.
  const UserSpec& (*spec)();

  bool fits(const PlainProblem& asked, int smem_per_cta_bytes) const;
};

/// Safe from any thread.
class UserKernels {
 public:
  explicit UserKernels(std::span<const UserKernel> kernels) : kernels_(kernels) {}

  /// Enqueues all launches; `arguments` are pointers to the values of the spec's arguments.
  /// Throws: Error.
  void run(const PlainProblem& problem, std::span<void* const> arguments, CUstream stream);
  /// Loads the kernels of a problem and says which variant it is. Throws: Error.
  Choice prepare(const PlainProblem& problem);

 private:
  struct Step {
    CUfunction function = nullptr;
    UserLaunch launch;
    std::span<const std::size_t> arguments;
  };
  struct Variable {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    std::size_t argument = 0;
  };
  struct Launches {
    std::vector<Step> steps;
    std::vector<Variable> variables;
  };
  struct Ready {
    const UserKernel* kernel = nullptr;
    const Device* device = nullptr;
    std::shared_ptr<const Launches> launches;
  };
  using Loaded = LoadedKernels<PlainProblem, Ready, NoMemory>;

  Ready get(const PlainProblem& problem);
  Launches load(Loaded::Context& context, const UserKernel& kernel, const PlainProblem& problem);
  void allow_shared(CUfunction function, int bytes);

  std::span<const UserKernel> kernels_;
  Driver driver_;
  /// Never less than before: launches under way need what they were promised.
  std::map<CUfunction, int> allowed_bytes_;
  Loaded loaded_{driver_};
};

}  // namespace swr_package
