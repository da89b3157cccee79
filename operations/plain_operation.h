// SPDX-License-Identifier: MIT
// What operations share whose kernels take one structure of parameters and nothing else, no tensor
// maps and no memory of their own: workload, launches by programs, rows of exported packages.
#pragma once

#include "core/members.h"
#include "core/package_text.h"
#include "core/typed_operation.h"
#include "driver/ready_launch.h"
#include "operations/workload.h"
#include <swr/kernel.h>

#include <memory>
#include <string>
#include <utility>

namespace swr {

inline CtaGrid grid_of(const LaunchGeometry& geometry) {
  return {.ctas = geometry.grid_x,
          .threads = geometry.block_x,
          .dynamic_smem_bytes = geometry.dynamic_smem_bytes};
}

template <typename Params>
void launch_plainly(const LaunchSite& site, const LaunchGeometry& geometry, Params params) {
  void* arguments[] = {&params};
  require_success(launch_grid(site.calls, site.entry(), grid_of(geometry), site.overlap,
                              site.stream, arguments),
                  "cuLaunchKernelEx");
}

/// As programs launch it: the call is the kernel's Params.
template <typename Params>
class PlainReady final : public ReadyLaunch {
 public:
  explicit PlainReady(const LaunchGeometry& geometry) : geometry_(geometry) {}

  void launch(const void* call, const LaunchSite& site) const override {
    launch_plainly(site, geometry_, *static_cast<const Params*>(call));
  }

 private:
  LaunchGeometry geometry_;
};

/// `Tensors` are the device memory of one problem. They are made from (problem, tools, seed) and
/// have params(), poison(), which makes every output what no kernel writes, and judge(), which
/// compares the outputs with what they should be and poisons them again.
template <typename Tensors>
class PlainTrial final : public Trial {
 public:
  PlainTrial(std::shared_ptr<const Kernel> kernel, const LaunchGeometry& geometry,
             const Tensors& tensors, const Stream& stream)
      : kernel_(std::move(kernel)), geometry_(geometry), tensors_(tensors), stream_(stream) {
    kernel_->allow_dynamic_smem(geometry.dynamic_smem_bytes);
  }

  void launch() override {
    launch_plainly({cuda_driver().launch_calls, kernel_->handles(),
                    overlap_where(kernel_->may_overlap()), stream_.handle()},
                   geometry_, tensors_.params());
  }
  Verdict verify() override {
    tensors_.poison();
    launch();
    return tensors_.judge();
  }
  Verdict check_after_timing() override { return tensors_.judge(); }

 private:
  std::shared_ptr<const Kernel> kernel_;
  LaunchGeometry geometry_;
  const Tensors& tensors_;
  const Stream& stream_;
};

template <typename Tensors>
class PlainWorkload final : public Workload {
 public:
  /// `tools` must outlive it. Throws: DriverError, also when the device is out of memory.
  PlainWorkload(const Problem& problem, const WorkloadTools& tools, unsigned long long seed)
      : problem_(problem), tools_(tools), seed_(seed), tensors_(problem, tools, seed) {}

  const Problem& problem() const override { return problem_; }
  std::unique_ptr<Trial> bind(const Variant& variant, std::shared_ptr<const Kernel> kernel,
                              int ctas_per_sm) override {
    return std::make_unique<PlainTrial<Tensors>>(
        std::move(kernel), launch_geometry(problem_, variant, tools_.sm_count, ctas_per_sm),
        tensors_, tools_.stream);
  }
  std::unique_ptr<Workload> copy() override {
    return std::make_unique<PlainWorkload>(problem_, tools_, seed_);
  }

 private:
  Problem problem_;
  const WorkloadTools& tools_;
  unsigned long long seed_;
  Tensors tensors_;
};

/// Problem and configuration of a kernel as C++ of a package's table, in the form of PlainProblem
/// (export/package/plain_kernels.h): sizes, then what makes the kind. `config` are its members.
std::string plain_package_row(const Problem& problem, const std::string& config);

/// What is written beside it: config_of(problem, variant), whose result has smem_bytes(), threads()
/// and ctas(problem, places), and members_of(config).
template <typename OneProblem, typename OneVariant, typename Tensors>
class PlainOperation : public OperationOver<OneProblem, OneVariant>,
                       public OperationServing,
                       public OperationPackage {
 public:
  int smem_bytes(const Problem& problem, const Variant& variant) const final {
    return config(problem, variant).smem_bytes();
  }
  int threads_per_cta(const Problem& problem, const Variant& variant) const final {
    return config(problem, variant).threads();
  }
  int computing_warps(const Variant& variant) const final {
    return config(OneProblem{}, variant).threads() / 32;
  }
  LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                                 int ctas_per_sm) const final {
    const auto chosen = config(problem, variant);
    return {.grid_x = chosen.ctas(this->one(problem), sm_count * ctas_per_sm),
            .block_x = chosen.threads(),
            .dynamic_smem_bytes = chosen.smem_bytes()};
  }

  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const final {
    return std::make_unique<PlainWorkload<Tensors>>(problem, tools, seed);
  }
  const OperationServing* serving() const final { return this; }
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm, const ServingTools& tools) const final {
    using Params = decltype(std::declval<const Tensors&>().params());
    return std::make_unique<PlainReady<Params>>(
        launch_geometry(problem, variant, tools.device.sm_count, ctas_per_sm));
  }
  const OperationPackage* package() const final { return this; }
  std::string package_row(const PackagedKernel& kernel) const final {
    return plain_package_row(kernel.problem,
                             listed_members(config(kernel.problem, kernel.variant)));
  }

 private:
  static auto config(const Problem& problem, const Variant& variant) {
    return config_of(PlainOperation::one(problem), PlainOperation::one(variant));
  }
};

}  // namespace swr
