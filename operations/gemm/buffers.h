// SPDX-License-Identifier: MIT
// Device memory of one GEMM problem: inputs, C between guards, the expected C, and the comparison.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/gemm/group_places.h"
#include "templates/reference/gemm_comparison.h"
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>
#include <swr/generator.h>

namespace swr {

/// The kernels of templates/reference that serve GEMM, loaded for the current context.
struct GemmReferenceKernels {
  /// Throws: Error{compile_failed}; DriverError.
  GemmReferenceKernels(const Generator& generator, int sm_arch);

  Kernel reference;
  Kernel binary_fill;
  Kernel random_fill;
  Kernel compare;
  Kernel count_disturbed;
};

/// What the inputs hold.
enum class GemmInputs {
  random,  ///< Normally distributed.
  binary,  ///< 0 and 1: sums up to 2^24, of FP8 2^13, are exact before they are rounded to the type
           ///< of C. Scales are powers of two.
};

/// How far apart the rows of matrices lie.
enum class RowGap {
  /// As close as the alignment allows; the distance is no multiple of a larger power of two than an
  /// alignment below 16 bytes.
  none,
  one_unit,  ///< One unit of alignment further, which finds kernels that take rows for contiguous.
};

enum class ExpectedC {
  computed,
  /// For timing alone: compare() is not to be called. The reference of a large product takes as
  /// long as hundreds of its launches.
  absent,
};

/// A matrix of a strided batch between guards of 0xff bytes, NaN in every type.
class GuardedMatrix {
 public:
  GuardedMatrix(int batch, int rows, int columns, int element_bytes, int alignment_bytes,
                RowGap gap);

  const DeviceBuffer& memory() const { return memory_; }
  void* address() const;
  const MatrixStrides& strides() const { return strides_; }
  int rows() const { return rows_; }
  int columns() const { return columns_; }

 private:
  int rows_;
  int columns_;
  MatrixStrides strides_;
  std::size_t offset_bytes_;
  DeviceBuffer memory_;
};

class GemmBuffers {
 public:
  /// Fills A and B, and C where the problem reads it, and computes the expected C where it is to be
  /// there. Rows of groups lie where `places` says.
  /// Throws: DriverError, also when the device is out of memory.
  GemmBuffers(const GemmProblem& problem, const GemmReferenceKernels& kernels, const Stream& stream,
              GemmInputs inputs, float alpha, float beta, RowGap gap = RowGap::one_unit,
              unsigned long long seed = 1, ExpectedC expected = ExpectedC::computed);
  GemmBuffers(const GemmProblem& problem, GroupPlaces places, const GemmReferenceKernels& kernels,
              const Stream& stream, GemmInputs inputs, float alpha, float beta, RowGap gap,
              unsigned long long seed, ExpectedC expected);

  const GemmProblem& problem() const { return problem_; }

  const DeviceBuffer& c_memory() const { return c_.memory(); }

  /// Arguments of a launch; schedule, partials and arrivals are the caller's.
  GemmParams params() const;
  GemmExtras extras() const;

  /// Fills C and what surrounds it with 0xff bytes and, where the problem reads it, C with its
  /// input.
  void reset_output(const Stream& stream) const;

  /// Compares C with what is expected. C is poisoned by the comparison, so a kernel that writes
  /// nothing afterwards is found.
  reference::GemmComparison compare(const Stream& stream) const;
  /// After compare(): 16-bit words of C's allocation that something wrote to outside of C.
  unsigned long long disturbed_words(const Stream& stream) const;

 private:
  void fill(const GuardedMatrix& matrix, int items, int dtype, GemmInputs inputs,
            unsigned long long seed, const Stream& stream) const;
  void compute_expected(const Stream& stream) const;
  /// The plain product of some rows of C.
  GemmParams part_params(const GroupPart& part) const;
  GemmExtras part_extras(const GroupPart& part) const;
  /// Where the expected C has them.
  CUdeviceptr expected_address(const GroupPart& part) const;
  void fill_c(const Stream& stream) const;
  void fill_scales(const DeviceBuffer& scales, unsigned long long seed) const;
  void fill_bias(const Stream& stream) const;
  reference::GemmReference reference() const;

  GemmProblem problem_;
  GroupPlaces places_;
  const GemmReferenceKernels& kernels_;
  GemmInputs inputs_;
  unsigned long long seed_;
  float alpha_;
  float beta_;
  GuardedMatrix a_;
  GuardedMatrix b_;
  GuardedMatrix c_;
  // Of GemmExtras; one element where the problem has none.
  DeviceBuffer a_scales_;
  DeviceBuffer b_scales_;
  DeviceBuffer c_scales_;
  DeviceBuffer bias_;
  DeviceBuffer expected_;
  DeviceBuffer group_numbers_;
};

}  // namespace swr
