// SPDX-License-Identifier: MIT
#include "operations/attention/reference_kernels.h"

#include "templates/reference/launch_shape.h"

namespace swr {
namespace {

/// A template's cubin holds all its kernels, whichever entry it was compiled for.
struct Cubin {
  Cubin(const Generator& generator, int sm_arch, const char* path, const char* entry)
      : code(generator.compile_template(path, entry, sm_arch).cubin) {}

  Kernel kernel(const char* entry) const { return Kernel(code, entry); }

  std::vector<std::byte> code;
};

}  // namespace

ReferenceKernels::ReferenceKernels(const Generator& generator, int sm_arch) {
  attention =
      Cubin(generator, sm_arch, "reference/attention_reference.cu", "swr_attention_reference")
          .kernel("swr_attention_reference");
  attention.allow_dynamic_smem(reference::kSmemBytes);
  random_fill = Cubin(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")
                    .kernel("swr_random_fill");
  const Cubin comparison(generator, sm_arch, "reference/compare.cu", "swr_compare_output");
  compare_output = comparison.kernel("swr_compare_output");
  compare_lse = comparison.kernel("swr_compare_lse");
  count_disturbed = comparison.kernel("swr_count_disturbed");
}

}  // namespace swr
