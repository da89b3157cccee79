// SPDX-License-Identifier: MIT
#include "capi/from_c.h"
#include "core/operation.h"
#include <swr/kernel_call.h>
#include <swr/kernel_spec.h>
#include <swr/swr_kernel_c.h>

#include <map>
#include <span>

namespace {

using namespace swr::capi;

const swr::Operation& operation_of(const swr_kernel* kernel) {
  require_pointer(kernel, "kernel");
  return *reinterpret_cast<const swr::Operation*>(kernel);
}

swr::Problem problem_from(const swr_kernel* kernel, const std::int32_t* sizes,
                          std::int32_t size_count) {
  const swr::Operation& operation = operation_of(kernel);
  require_pointer(sizes, "sizes");
  const auto fields = operation.fields();
  if (size_count != static_cast<std::int32_t>(fields.size())) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     "the kernel has " + std::to_string(fields.size()) + " sizes, and " +
                         std::to_string(size_count) + " are given");
  }
  std::map<std::string, int> values;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    values[std::string(fields[i].name)] = sizes[i];
  }
  return swr::kernel_problem(operation, values);
}

std::span<const swr_kernel_argument> arguments_from(const swr_kernel_argument* arguments,
                                                    std::int32_t count) {
  require_pointer(arguments, "arguments");
  constexpr auto kMost = static_cast<std::int32_t>(swr::KernelCall::kMostArguments);
  if (count < 0 || count > kMost) {
    reject("a kernel has 0 to " + std::to_string(kMost) + " arguments, not " +
           std::to_string(count));
  }
  return {arguments, static_cast<std::size_t>(count)};
}

}  // namespace

extern "C" {

swr_status swr_kernel_register(const char* spec_file, const swr_kernel** kernel) {
  return guarded([&] {
    require_pointer(spec_file, "spec_file");
    require_pointer(kernel, "kernel");
    const swr::Operation* const known =
        &swr::register_kernel(swr::read_kernel_spec(spec_file), spec_file);
    *kernel = reinterpret_cast<const swr_kernel*>(known);
  });
}

const char* swr_kernel_name(const swr_kernel* kernel) {
  // Names are kept as texts that end in a zero.
  return kernel == nullptr ? "" : operation_of(kernel).name().data();
}

swr_status swr_runtime_best_kernel(const swr_runtime* runtime, const swr_kernel* kernel,
                                   const int32_t* sizes, int32_t size_count,
                                   const swr_device* device, swr_kernel_answer* answer) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(device, "device");
    require_pointer(answer, "answer");
    const swr::Answer best =
        runtime->runtime.best(problem_from(kernel, sizes, size_count), device_from(*device));
    *answer = {};
    to_key(best.variant).copy(answer->variant, sizeof answer->variant - 1);
    answer->match = static_cast<std::int32_t>(best.level);
    answer->on_same_device = best.on_same_device ? 1 : 0;
    answer->distance = best.distance;
    answer->time_us = best.time_us.value_or(-1.0);
    answer->result_id = best.result_id;
  });
}

swr_status swr_runtime_launch_kernel(swr_runtime* runtime, const swr_kernel* kernel,
                                     const int32_t* sizes, int32_t size_count,
                                     const swr_kernel_argument* arguments, int32_t argument_count,
                                     const void* memory, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    const swr::Problem problem = problem_from(kernel, sizes, size_count);
    swr::KernelCall call;
    call.set_memory(memory);
    for (const swr_kernel_argument& argument : arguments_from(arguments, argument_count)) {
      require_pointer(argument.bytes, "arguments");
      call.add_bytes(argument.bytes, argument.size);
    }
    swr::launch(runtime->runtime, problem, call, static_cast<CUstream_st*>(stream));
  });
}
}
