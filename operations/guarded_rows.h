// SPDX-License-Identifier: MIT
// Device memory of a matrix of 16-bit elements between guards, for workloads.
#pragma once

#include "operations/workload.h"
#include "templates/reference/comparison.h"
#include <swr/axes.h>

#include <cstddef>
#include <span>

namespace swr {

inline constexpr LaunchShape kElementwise{.grid_x = 1024, .block_x = 256};

/// A kernel of the templates that is no variant. Throws: Error{compile_failed}; DriverError.
inline Kernel load_template(const Generator& generator, int sm_arch, const char* path,
                            const char* entry) {
  return Kernel(generator.compile_template(path, entry, sm_arch).cubin, entry);
}

/// What a kernel, whose last argument is a Result, makes of a zeroed one.
template <typename Result, typename... Arguments>
Result result_of(const Kernel& kernel, const Stream& stream, Arguments... arguments) {
  const DeviceBuffer memory(sizeof(Result));
  memory.fill(0, stream);
  kernel.launch(kElementwise, stream, arguments..., memory.address());
  stream.synchronize();
  Result result;
  memory.download(std::as_writable_bytes(std::span(&result, 1)));
  return result;
}

/// Rows lie as close as the alignment allows; neither the address nor, where there is a choice, the
/// stride is a multiple of more. Guards and gaps hold 0xff bytes, NaN in every type.
class GuardedRows {
 public:
  /// `tools` must outlive it. Throws: DriverError, also when the device is out of memory.
  GuardedRows(const WorkloadTools& tools, int rows, int columns, DType dtype, int alignment_bytes);

  void* address() const;
  long long stride() const { return stride_; }  ///< In elements.

  /// Normally distributed values.
  void fill_random(unsigned long long seed) const;
  /// 0xff bytes everywhere.
  void poison() const { memory_.fill(0xff, tools_.stream); }
  /// 16-bit words that are not 0xffff.
  unsigned long long disturbed_words() const;

 private:
  const WorkloadTools& tools_;
  int rows_;
  int columns_;
  DType dtype_;
  long long stride_;
  std::size_t offset_bytes_;
  DeviceBuffer memory_;
};

}  // namespace swr
