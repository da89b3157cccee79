// SPDX-License-Identifier: MIT
// Specs of kernels: JSON of swr's form or T1 where the input begins with a brace, else a source
// with pragmas. What is understood is planned, as before tuning.
#include "fuzz/harness.h"
#include "kernel_spec/spec/kernel_plan.h"
#include <swr/kernel_spec.h>

namespace swr::fuzz {
namespace {

/// The source that specs of the corpus name.
void write_source() {
  static const auto path =
      write_input("f.cu", "template <int n> __global__ void f(float* y) { y[0] = n; }\n");
  require(!path.empty(), "a source lies beside the spec");
}

}  // namespace

void run_one(std::string_view input) {
  write_source();
  const auto file = write_input(input.starts_with('{') ? "k.json" : "k.cu", input);
  const kernel_spec::KernelPlan plan(read_kernel_spec(file));
  require(!plan.spec().name.empty(), "a kernel has a name");
  require(!plan.steps().empty(), "a plan launches something");
}

}  // namespace swr::fuzz
