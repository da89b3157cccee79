// SPDX-License-Identifier: MIT
#include "tuner/measure/reference_kernels.h"

#include "templates/reference/launch_shape.h"

namespace swr {
namespace {

constexpr const char* kComparePath = "reference/compare.cu";

Kernel load(const Generator& generator, int sm_arch, const char* path, const char* entry) {
  return Kernel(generator.compile_template(path, entry, sm_arch).cubin, entry);
}

}  // namespace

ReferenceKernels::ReferenceKernels(const Generator& generator, int sm_arch)
    : attention(
          load(generator, sm_arch, "reference/attention_reference.cu", "swr_attention_reference")),
      random_fill(load(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")),
      compare_output(load(generator, sm_arch, kComparePath, "swr_compare_output")),
      compare_lse(load(generator, sm_arch, kComparePath, "swr_compare_lse")),
      count_disturbed(load(generator, sm_arch, kComparePath, "swr_count_disturbed")) {
  constexpr int kLargestHeadDim = 256;
  attention.allow_dynamic_smem(reference::smem_bytes(kLargestHeadDim));
}

}  // namespace swr
