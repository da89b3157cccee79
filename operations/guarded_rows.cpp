// SPDX-License-Identifier: MIT
#include "operations/guarded_rows.h"

#include <swr/attention_params.h>

namespace swr {
namespace {

constexpr std::size_t kGuardBytes = 4096;  ///< A multiple of every alignment.
constexpr int kElementBytes = 2;
constexpr int kLargestAlignment = 16;

struct RowKernels {
  RowKernels(const Generator& generator, int sm_arch)
      : fill(load_template(generator, sm_arch, "reference/random_fill.cu", "swr_random_fill")),
        count(load_template(generator, sm_arch, "reference/compare.cu", "swr_count_disturbed")) {}

  Kernel fill;
  Kernel count;
};

long long stride_of(int columns, int alignment_bytes) {
  const int unit = alignment_bytes / kElementBytes;
  const long long units = (static_cast<long long>(columns) + unit - 1) / unit;
  const bool is_aligned_better = alignment_bytes < kLargestAlignment && units % 2 == 0;
  return (units + (is_aligned_better ? 1 : 0)) * unit;
}

}  // namespace

GuardedRows::GuardedRows(const WorkloadTools& tools, int rows, int columns, DType dtype,
                         int alignment_bytes)
    : tools_(tools),
      rows_(rows),
      columns_(columns),
      dtype_(dtype),
      stride_(stride_of(columns, alignment_bytes)),
      offset_bytes_(kGuardBytes + static_cast<std::size_t>(alignment_bytes % kLargestAlignment)),
      memory_(offset_bytes_ + kGuardBytes +
              static_cast<std::size_t>(kElementBytes * rows * stride_)) {
  poison();
}

void* GuardedRows::address() const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
  return reinterpret_cast<void*>(memory_.address() + offset_bytes_);
}

void GuardedRows::fill_random(unsigned long long seed) const {
  const TensorStrides strides{.batch = 0, .head = 0, .seq = stride_};
  tools_.kernels<RowKernels>().fill.launch(kElementwise, tools_.stream, address(), strides, 1, 1,
                                           rows_, columns_, static_cast<int>(dtype_), seed);
}

unsigned long long GuardedRows::disturbed_words() const {
  return result_of<reference::Comparison>(tools_.kernels<RowKernels>().count, tools_.stream,
                                          memory_.address(),
                                          static_cast<long long>(memory_.size_bytes() / 2))
      .disturbed_words;
}

}  // namespace swr
