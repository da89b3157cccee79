// SPDX-License-Identifier: MIT
// The kernels of one operation that are loaded, by context.
#pragma once

#include "driver/launch_calls.h"
#include "export/package/driver.h"
#include "export/package/embedded.h"
#include "export/package/sha256.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace swr_package {

/// `Problem` is a key, `Ready` what a launch needs, `Memory` what the launches of a context take
/// device memory from. Safe from any thread.
template <typename Problem, typename Ready, typename Memory>
class LoadedKernels {
 public:
  struct Module {
    CUmodule handle = nullptr;
    CUfunction function = nullptr;
  };
  struct Context {
    Device device;
    std::map<std::string, Module> modules;  ///< By digest.
    std::map<Problem, Ready> ready;
    std::unique_ptr<Memory> memory;
  };

  explicit LoadedKernels(const Driver& driver) : driver_(driver) {}
  ~LoadedKernels() {
    CUcontext former = nullptr;
    driver_.context_get_current(&former);
    for (auto& [handle, context] : contexts_) {
      driver_.context_set_current(handle);
      for (auto& [digest, module] : context.modules) {
        driver_.module_unload(module.handle);
      }
      context.memory.reset();
    }
    driver_.context_set_current(former);
  }
  LoadedKernels(const LoadedKernels&) = delete;
  LoadedKernels& operator=(const LoadedKernels&) = delete;

  /// What is ready for a problem in the current context; make(context) makes it the first time.
  template <typename Make>
  Ready get(const Problem& problem, Make&& make) {
    // Differing lengths must not grow the table without end.
    constexpr std::size_t kMostChoices = 1 << 16;
    const std::lock_guard<std::mutex> lock(mutex_);
    Context& context = current_context();
    const auto known = context.ready.find(problem);
    if (known != context.ready.end()) {
      return known->second;
    }
    if (context.ready.size() >= kMostChoices) {
      context.ready.clear();
    }
    return context.ready.emplace(problem, make(context)).first->second;
  }

  /// The function of a kernel, loaded once per context and cubin; prepare(function) then gives it
  /// what its launches ask for. Throws: Error{damaged}; Error{driver_failed}.
  template <typename Prepare>
  CUfunction load(Context& context, const EmbeddedKernel& kernel, Prepare&& prepare) const {
    const auto known = context.modules.find(kernel.sha256);
    if (known != context.modules.end()) {
      return known->second.function;
    }
    require_undamaged(kernel);
    const swr::RelaxedCapture relaxed(driver_.launch);
    Module loaded;
    driver_.require(driver_.module_load_data(&loaded.handle, kernel.cubin), "cuModuleLoadData");
    const CUresult found =
        driver_.module_get_function(&loaded.function, loaded.handle, kernel.entry);
    const CUresult prepared = found == CUDA_SUCCESS ? prepare(loaded.function) : found;
    if (prepared != CUDA_SUCCESS) {
      driver_.module_unload(loaded.handle);
    }
    driver_.require(found, "cuModuleGetFunction");
    driver_.require(prepared, "cuFuncSetAttribute");
    return context.modules.emplace(kernel.sha256, loaded).first->second.function;
  }

 private:
  static void require_undamaged(const EmbeddedKernel& kernel) {
    if (swr::Sha256::hex(kernel.cubin, kernel.cubin_bytes) != kernel.sha256) {
      throw Error(ErrorCode::damaged, std::string("the kernel ") + kernel.name +
                                          " is not what was exported; build the package again");
    }
  }

  Context& current_context() {
    CUcontext handle = nullptr;
    driver_.require(driver_.context_get_current(&handle), "cuCtxGetCurrent");
    if (handle == nullptr) {
      throw Error(ErrorCode::no_driver,
                  "no CUDA context is current on this thread; make one current first");
    }
    const auto known = contexts_.find(handle);
    if (known != contexts_.end()) {
      return known->second;
    }
    return contexts_
        .emplace(
            handle,
            Context{driver_.current_device(), {}, {}, std::make_unique<Memory>(driver_.launch)})
        .first->second;
  }

  const Driver& driver_;
  std::mutex mutex_;
  std::map<CUcontext, Context> contexts_;
};

}  // namespace swr_package
