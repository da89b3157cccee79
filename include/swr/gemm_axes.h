// SPDX-License-Identifier: MIT
// The enumerated values of GEMM's own axes. Self-contained, so that kernels compiled by NVRTC
// include this very file.
//
// Enumerator spellings are also the spellings on the command line, in JSON and in the database:
// append new values at the end, never rename or reorder.
#pragma once

#include <swr/annotations.h>

namespace swr {

/// How A and B lie in memory, all matrices being row-major: `n` stands for a matrix stored as it
/// enters the product, `t` for one stored transposed.
enum class GemmLayout {
  nt,  ///< A [m, k], B [n, k]: both contiguous along k (a linear layer's weights).
  nn,  ///< A [m, k], B [k, n].
  tn,  ///< A [k, m], B [k, n].
};

/// Where the rows of A and C lie that belong to each item of B's batch, an expert's matrix, say.
/// How many an item has stands in GemmParams::groups, on the device.
enum class GemmGroups {
  none,     ///< A strided batch: every item has m rows.
  offsets,  ///< Items follow one another in one matrix; item i ends before row groups[i].
  /// The same in whole runs of kContiguousRows rows: groups[row] is the item of a row. Rows of
  /// padding have -1; those that follow others in a run may be written.
  contiguous,
  masked,  ///< A strided batch of m rows, of which item i has the first groups[i].
};
inline constexpr int kContiguousRows = 128;

/// False where all items share one matrix.
SWR_HD constexpr bool has_matrix_per_item(GemmGroups groups) {
  return groups == GemmGroups::none || groups == GemmGroups::masked;
}

/// Element type of C, fp8 being e4m3. A and B have a DType; accumulation is always fp32.
enum class OutputType { fp16, bf16, fp32, fp8 };

/// Bytes of one element of C.
SWR_HD constexpr int output_bytes(OutputType output) {
  return output == OutputType::fp32 ? 4 : output == OutputType::fp8 ? 1 : 2;
}

/// Elements that share a scale, an fp32 value in device memory by which they are multiplied.
enum class Scaling {
  none,    ///< Of 16-bit types.
  tensor,  ///< All of a matrix.
  row,     ///< Those of a row of A, or of a column of the product.
  block,   ///< 128 consecutive ones of a row; of B, 128 x 128.
};
/// Side of a block of Scaling::block.
inline constexpr int kScaleBlock = 128;

/// How sums of FP8 products are formed. The tensor cores of sm_89 and sm_90 keep about 13 bits of a
/// sum and drop the rest, which ruins long sums of one sign.
enum class Accuracy {
  fast,       ///< By the tensor cores alone.
  two_level,  ///< By the tensor cores over short parts of k, whose sums are added in fp32.
};

/// What is done to C after its scales and its bias.
enum class Activation {
  none,
  gelu,       ///< x Phi(x) with the error function.
  gelu_tanh,  ///< Its approximation by tanh.
  silu,       ///< x / (1 + exp(-x)).
};

/// Order of the tiles of C inside a column group (swr/gemm_params.h, swizzle_stride).
enum class Raster {
  along_n,  ///< Row of tiles by row of tiles; n varies fastest.
  along_m,  ///< Column of tiles by column of tiles; m varies fastest.
  /// Bands of `raster_group` rows of tiles; inside a band column by column.
  grouped,
  serpentine,  ///< grouped, but every other band walks its columns from last to first.
  hilbert,     ///< Hilbert's curve over the enclosing square, tiles outside left out.
};

/// How the Hopper family's consumer warpgroups share the tiles of a CTA.
enum class GemmMainloop {
  cooperative,  ///< Every consumer computes its rows of the same tile.
  pingpong,  ///< Two consumers compute alternate tiles: one's epilogue under the other's products.
};

}  // namespace swr
