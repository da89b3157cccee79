// SPDX-License-Identifier: MIT
// The enumerated values of GEMM's own axes. Self-contained, so that kernels compiled by NVRTC
// include this very file.
//
// Enumerator spellings are also the spellings on the command line, in JSON and in the database:
// append new values at the end, never rename or reorder.
#pragma once

namespace swr {

/// How A and B lie in memory, all matrices being row-major: `n` stands for a matrix stored as it
/// enters the product, `t` for one stored transposed.
enum class GemmLayout {
  nt,  ///< A [m, k], B [n, k]: both contiguous along k (a linear layer's weights).
  nn,  ///< A [m, k], B [k, n].
  tn,  ///< A [k, m], B [k, n].
};

/// Element type of C. A and B have a DType; accumulation is always fp32.
enum class OutputType { fp16, bf16, fp32 };

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
