// SPDX-License-Identifier: MIT
// Specs of kernels: JSON of swr's form or T1 where the input begins with a brace, else a source
// with pragmas. What is understood is planned, and computed for one point, as before tuning.
#include "fuzz/harness.h"
#include "kernel_spec/spec/kernel_plan.h"
#include <swr/kernel_spec.h>

namespace swr::fuzz {
namespace {

/// Beside the specs, which name it.
void write_source_once() {
  [[maybe_unused]] static const auto source =
      write_input("f.cu", "template <int n> __global__ void f(float* y) { y[0] = n; }\n");
}

}  // namespace

void run_one(std::string_view input) {
  write_source_once();
  const auto file = write_input(input.starts_with('{') ? "k.json" : "k.cu", input);
  const kernel_spec::KernelPlan plan(read_kernel_spec(file));
  require(!plan.spec().name.empty(), "a kernel has a name");
  require(!plan.steps().empty(), "a plan launches something");
  kernel_spec::Point point;
  plan.fill(point, std::vector<int>(plan.spec().sizes.size(), 1000), plan.usual_choice());
  static_cast<void>(plan.broken(point));
  static_cast<void>(plan.launch(plan.steps().front(), point));
}

}  // namespace swr::fuzz
