// SPDX-License-Identifier: MIT
// What a CTA holds in shared memory and moves to and from global memory, buffer by buffer and
// tensor by tensor.
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

/// The buffers of a variant; together smem_bytes().
std::vector<NamedBytes> smem_buffers(const AttentionProblem& problem,
                                     const AttentionVariant& variant);

/// How many ways the reads of a variant's K and V rows conflict, by the layout; 1 when none do.
int bank_conflict_ways(const AttentionProblem& problem, const AttentionVariant& variant);

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
                         int packed_heads = 1);

}  // namespace swr
