// SPDX-License-Identifier: MIT
#include "kernel_spec/operation/package/user_kernels.h"

#include "kernel_spec/expression/expression.h"
#include <swr/error.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace swr_package {
namespace {

namespace spec_words = swr::kernel_spec;

/// Everything that expressions of a spec may name, at one point.
class Point {
 public:
  Point(const UserSpec& spec, std::span<const char* const> values, const Sizes& sizes)
      : dialect_(spec.is_c_dialect ? spec_words::Dialect::c : spec_words::Dialect::python),
        names_(spec.parameters) {
    for (const char* const value : values) {
      table_.push_back(spec_words::parameter_value(value, heap_));
    }
    for (std::size_t i = 0; i < spec.sizes.size(); ++i) {
      names_.push_back(spec.sizes[i]);
      table_.push_back(spec_words::Value::of(static_cast<long long>(sizes[i])));
    }
    for (const auto& [name, items] : spec.lists) {
      std::vector<spec_words::Value> list;
      for (const std::string& item : items) {
        list.push_back(compute(item));
      }
      names_.push_back(name);
      table_.push_back(heap_.keep(std::move(list)));
    }
  }

  spec_words::Value compute(const std::string& text) {
    const spec_words::BoundExpression bound(spec_words::Expression(text, dialect_), names_);
    return bound.evaluate(table_, heap_);
  }
  bool holds(const std::string& text) { return spec_words::is_true(compute(text)); }
  /// Throws: swr::Error unless it is a whole number from `least` on that an int holds.
  int whole(const std::string& text, int least) {
    const spec_words::Value value = compute(text);
    const double number = value.is_integral() ? static_cast<double>(value.integer) : value.real;
    if (!value.is_number() || std::floor(number) != number || number < least ||
        number > std::numeric_limits<int>::max()) {
      throw swr::Error(swr::ErrorCode::invalid_argument, text + " is no number of a launch");
    }
    return static_cast<int>(number);
  }

 private:
  spec_words::Dialect dialect_;
  std::vector<std::string> names_;
  std::vector<spec_words::Value> table_;
  spec_words::ValueHeap heap_;
};

UserLaunch launch_of(const UserStep& step, Point& point) {
  UserLaunch launch;
  if (!step.when.empty() && !point.holds(step.when)) {
    launch.times = 0;
    return launch;
  }
  for (std::size_t i = 0; i < step.block.size(); ++i) {
    launch.block[i] = static_cast<unsigned>(point.whole(step.block[i], 1));
  }
  for (std::size_t i = 0; i < step.grid.size(); ++i) {
    launch.grid[i] = static_cast<unsigned>(point.whole(step.grid[i], 1));
  }
  launch.shared_bytes = point.whole(step.shared_bytes, 0);
  launch.times = point.whole(step.repeat, 0);
  return launch;
}

}  // namespace

std::optional<std::vector<UserLaunch>> plan(const UserSpec& spec,
                                            std::span<const char* const> values,
                                            const Sizes& sizes) {
  try {
    Point point(spec, values, sizes);
    for (const std::string& constraint : spec.constraints) {
      if (!point.holds(constraint)) {
        return std::nullopt;
      }
    }
    std::vector<UserLaunch> launches;
    for (const UserStep& step : spec.steps) {
      launches.push_back(launch_of(step, point));
    }
    return launches;
  } catch (const swr::Error&) {
    return std::nullopt;  // At these sizes an expression has no value.
  }
}

bool UserKernel::fits(const PlainProblem& asked, int smem_per_cta_bytes) const {
  if (spec().has_sizes_compiled_in && asked.lengths != problem.lengths) {
    return false;
  }
  const auto launches = plan(spec(), values, asked.lengths);
  if (!launches) {
    return false;
  }
  for (const UserLaunch& launch : *launches) {
    const auto& [x, y, z] = launch.block;
    if (1ULL * x * y * z > 1024 || launch.shared_bytes > smem_per_cta_bytes) {
      return false;
    }
  }
  return true;
}

void UserKernels::allow_shared(CUfunction function, int bytes) {
  int& allowed = allowed_bytes_[function];
  if (bytes > allowed) {
    driver_.require(swr::allow_dynamic_smem(driver_.launch, function, bytes), "cuFuncSetAttribute");
    allowed = bytes;
  }
}

UserKernels::Launches UserKernels::load(Loaded::Context& context, const UserKernel& kernel,
                                        const PlainProblem& problem) {
  loaded_.load(context, kernel.embedded, [](CUfunction /*function*/) { return CUDA_SUCCESS; });
  const CUmodule module = context.modules.at(kernel.embedded.sha256).handle;
  const std::vector<UserLaunch> planned = *plan(kernel.spec(), kernel.values, problem.lengths);
  Launches launches;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].times == 0) {
      continue;
    }
    Step step{nullptr, planned[i], kernel.spec().steps[i].arguments};
    driver_.require(driver_.module_get_function(&step.function, module, kernel.entries[i]),
                    "cuModuleGetFunction");
    allow_shared(step.function, step.launch.shared_bytes);
    launches.steps.push_back(step);
  }
  const auto get_global =
      reinterpret_cast<decltype(cuModuleGetGlobal)*>(driver_.find("cuModuleGetGlobal_v2"));
  const std::vector<std::string>& variables = kernel.spec().variables;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!variables[i].empty()) {
      Variable variable{.argument = i};
      driver_.require(get_global(&variable.address, &variable.bytes, module, variables[i].c_str()),
                      "cuModuleGetGlobal");
      launches.variables.push_back(variable);
    }
  }
  return launches;
}

UserKernels::Ready UserKernels::get(const PlainProblem& problem) {
  for (const int size : problem.lengths) {
    require_argument(size >= 1, "every size must be 1 or more, not " + text(size));
  }
  return loaded_.get(problem, [&](Loaded::Context& context) {
    const UserKernel& kernel = choose(kernels_, problem, context.device);
    return Ready{&kernel, &context.device,
                 std::make_shared<const Launches>(load(context, kernel, problem))};
  });
}

Choice UserKernels::prepare(const PlainProblem& problem) {
  const Ready ready = get(problem);
  return choice_of(*ready.kernel, problem, *ready.device);
}

void UserKernels::run(const PlainProblem& problem, std::span<void* const> arguments,
                      CUstream stream) {
  const Ready ready = get(problem);
  static const auto copy =
      reinterpret_cast<decltype(cuMemcpyDtoDAsync)*>(driver_.find("cuMemcpyDtoDAsync_v2"));
  for (const Variable& variable : ready.launches->variables) {
    CUdeviceptr from = 0;
    std::memcpy(&from, arguments[variable.argument], sizeof from);
    driver_.require(copy(variable.address, from, variable.bytes, stream), "cuMemcpyDtoDAsync");
  }
  for (const Step& step : ready.launches->steps) {
    std::vector<void*> pointers;
    for (const std::size_t place : step.arguments) {
      pointers.push_back(arguments[place]);
    }
    CUlaunchConfig config{};
    config.gridDimX = step.launch.grid[0];
    config.gridDimY = step.launch.grid[1];
    config.gridDimZ = step.launch.grid[2];
    config.blockDimX = step.launch.block[0];
    config.blockDimY = step.launch.block[1];
    config.blockDimZ = step.launch.block[2];
    config.sharedMemBytes = static_cast<unsigned>(step.launch.shared_bytes);
    config.hStream = stream;
    for (long long i = 0; i < step.launch.times; ++i) {
      driver_.require(
          driver_.launch.launch_kernel_ex(&config, step.function, pointers.data(), nullptr),
          "cuLaunchKernelEx");
    }
  }
}

}  // namespace swr_package
