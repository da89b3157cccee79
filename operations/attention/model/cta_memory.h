// SPDX-License-Identifier: MIT
// What a CTA holds in shared memory and moves to and from global memory, buffer by buffer and
// tensor by tensor. Layouts may be those of the families here or any other's, so that kernels of
// papers can be set beside them.
#pragma once

#include "report/explain/explain_text.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/variant.h>

#include <span>
#include <string>
#include <vector>

namespace swr {

/// A side of a buffer.
enum class Extent { one, q_rows, kv_rows, head_dim };

/// A buffer of a kernel in shared memory, for tiles of any size.
struct BufferLayout {
  std::string name;
  Extent rows = Extent::one;
  Extent columns = Extent::one;
  int element_bytes = 0;
};

/// Sizes of the buffers for one tile.
std::vector<NamedBytes> buffer_bytes(std::span<const BufferLayout> layout, int tile_m, int tile_n,
                                     int head_dim);

/// The buffers of a variant of the families here; together smem_bytes().
std::vector<NamedBytes> smem_buffers(const AttentionProblem& problem,
                                     const AttentionVariant& variant);

/// How many ways the reads of a variant's K and V rows conflict, by the layout; 1 when none do.
int bank_conflict_ways(const AttentionProblem& problem, const AttentionVariant& variant);

/// How the last tile of a length counts that tiles do not divide.
enum class LastTile {
  clipped,  ///< Rows that exist, as the families here move them.
  whole,    ///< All rows of the tile, as kernels move them that pad.
};

/// Bytes that CTAs move for one tensor.
struct TensorBytes {
  std::string tensor;
  long long block = 0;       ///< Of the Q tile that sees most keys.
  long long total = 0;       ///< Of all Q tiles.
  long long compulsory = 0;  ///< The tensor once.
};

struct GlobalBytes {
  long long blocks = 0;  ///< Q tiles.
  std::vector<TensorBytes> tensors;

  long long block() const;
  long long total() const;
  long long compulsory() const;
  /// Total over compulsory bytes.
  double amplification() const;
};

/// Bytes demanded of L2 by tiles of this size; with the mask a tile reads the keys it sees. Query
/// heads of one K and V head share Q tiles where they are `packed_heads` to a tile. What splits
/// leave for each other is not counted.
GlobalBytes global_bytes(const AttentionProblem& problem, int tile_m, int tile_n,
                         LastTile last_tile = LastTile::clipped, int packed_heads = 1);

}  // namespace swr
