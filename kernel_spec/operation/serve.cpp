// SPDX-License-Identifier: MIT
// Launches of users' kernels in programs.
#include "core/reject.h"
#include "driver/ready_launch.h"
#include "kernel_spec/operation/user_kernel.h"
#include <swr/kernel_call.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace swr {
namespace {

using kernel_spec::PlannedArgument;
using kernel_spec::PlannedLaunch;
using kernel_spec::PlannedStep;
using kernel_spec::Point;

/// Memory of a variable of the cubin that `function` is from.
struct Variable {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
};

Variable variable_of(CUfunction function, const std::string& name) {
  static const DriverCall<decltype(cuFuncGetModule)> module_of{cuda_driver().library,
                                                               "cuFuncGetModule"};
  CUmodule module = nullptr;
  module_of(&module, function);
  Variable variable;
  cuda_driver().module_get_global(&variable.address, &variable.bytes, module, name.c_str());
  return variable;
}

/// An argument as a call has to bring it.
struct Expected {
  std::string name;
  std::size_t bytes = sizeof(CUdeviceptr);
  bool is_vector = false;
  bool is_texture = false;
  std::optional<Variable> variable = {};
};

class ReadyUserKernel final : public ReadyLaunch {
 public:
  ReadyUserKernel(const UserKernel& user, const Problem& problem, const Variant& variant,
                  std::span<const CUfunction> functions)
      : name_(user.text(problem)) {
    Point point;
    user.fill(point, problem, variant);
    for (const PlannedArgument& argument : user.plan().arguments()) {
      Expected expected{.name = argument.spec.name,
                        .is_vector = argument.size.has_value(),
                        .is_texture = argument.spec.texture.has_value()};
      if (argument.spec.texture) {
        expected.bytes = sizeof(CUtexObject);
      } else if (!expected.is_vector) {
        expected.bytes = argument.type_at(point).bytes();
      }
      if (argument.spec.is_constant) {
        expected.variable = variable_of(functions.front(), argument.spec.name);
      }
      arguments_.push_back(std::move(expected));
    }
    const std::vector<PlannedStep>& steps = user.plan().steps();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const PlannedLaunch launch = user.plan().launch(steps[i], point);
      smem_bytes_.push_back(launch.times == 0 ? 0 : launch.shared_bytes);
      if (launch.times > 0) {
        steps_.push_back({functions[i], launch, steps[i].arguments});
      }
    }
  }

  std::vector<int> smem_bytes_by_entry() const override { return smem_bytes_; }

  void launch(const void* call, const LaunchSite& site) const override {
    const auto& given = *static_cast<const KernelCall*>(call);
    require_fitting(given);
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].variable) {
        CUdeviceptr from = 0;
        std::memcpy(&from, given.bytes_of(i), sizeof from);
        cuda_driver().copy_on_device(arguments_[i].variable->address, from,
                                     arguments_[i].variable->bytes, site.stream);
      }
    }
    for (const Step& step : steps_) {
      enqueue(step, given, site.stream);
    }
  }

 private:
  struct Step {
    CUfunction function = nullptr;
    PlannedLaunch launch;
    std::vector<std::size_t> arguments;
  };

  void require_fitting(const KernelCall& call) const {
    if (call.count() != arguments_.size()) {
      reject(name_ + " takes " + std::to_string(arguments_.size()) + " arguments, and " +
             std::to_string(call.count()) + " are given; their order is the spec's");
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (call.size_of(i) != arguments_[i].bytes) {
        reject("argument " + arguments_[i].name + " of " + name_ + " has " +
               std::to_string(arguments_[i].bytes) + " bytes" +
               (arguments_[i].is_vector    ? " (a pointer)"
                : arguments_[i].is_texture ? " (a texture object)"
                                           : "") +
               ", and " + std::to_string(call.size_of(i)) + " are given");
      }
    }
  }

  static void enqueue(const Step& step, const KernelCall& call, CUstream stream) {
    std::array<void*, KernelCall::kMostArguments> pointers{};
    for (std::size_t i = 0; i < step.arguments.size(); ++i) {
      pointers[i] = const_cast<void*>(call.bytes_of(step.arguments[i]));
    }
    const auto& [gx, gy, gz] = step.launch.grid;
    const auto& [bx, by, bz] = step.launch.block;
    for (int i = 0; i < step.launch.times; ++i) {
      cuda_driver().launch_kernel(step.function, gx, gy, gz, bx, by, bz,
                                  static_cast<unsigned>(step.launch.shared_bytes), stream,
                                  pointers.data(), static_cast<void**>(nullptr));
    }
  }

  std::string name_;
  std::vector<Expected> arguments_;
  std::vector<Step> steps_;
  std::vector<int> smem_bytes_;
};

}  // namespace

std::unique_ptr<ReadyLaunch> UserKernel::make_ready(const Problem& problem, const Variant& variant,
                                                    int /*ctas_per_sm*/,
                                                    const ServingTools& tools) const {
  return std::make_unique<ReadyUserKernel>(*this, problem, variant, tools.functions);
}

}  // namespace swr
