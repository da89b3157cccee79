// SPDX-License-Identifier: MIT
// One call of attention over unequal sequences, as Runtime::attention() takes it, and the merge of
// results over different keys.
#pragma once

#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/kv_append_params.h>
#include <swr/merge_states_params.h>
#include <swr/serving_attention_params.h>
#include <swr/serving_axes.h>

#include <optional>

namespace swr {

/// How the lengths of the sequences of a batch are distributed. Nobody knows those of a call before
/// it runs: a problem names what they are like, and kernels are measured on a draw. Append only.
enum class LengthFamily {
  equal,           ///< All are the longest.
  uniform,         ///< Anything up to the longest.
  log_normal,      ///< Median an eighth of the longest, sigma 1.
  short_and_long,  ///< One in twenty is the longest, the others are up to a sixteenth of it.
  one_giant,       ///< One is the longest, the others a 64th of it.
  some_empty,      ///< One in ten has no keys and no queries, the others as uniform.
  one_chunk,       ///< One has all the queries and keys, the others a single query; keys uniform.
};

/// Device memory of the caller's for what CTAs share and for turned queries, aligned to 256 bytes.
/// Its first kZeroedBytes must be 0 before its first use; launches leave them so. Launches that
/// follow each other on a stream may share it, whatever their shapes.
struct ServingWorkspace {
  static constexpr long long kZeroedBytes = 1LL << 16;

  void* memory = nullptr;  ///< Null: the runtime's memory, allocated when a stream first needs it.
  long long bytes = 0;
};

/// Choices of the launch, partials and arrivals in `params` are ignored: the kernel that is chosen
/// decides them. A scale_log2 of 0 stands for log2(e) / sqrt(head_dim), without a softcap.
struct ServingAttentionCall {
  ServingAttentionParams params;
  int head_dim = 64;
  int head_dim_v = 64;
  DType dtype = DType::fp16;
  ServingMask mask = ServingMask::causal;
  Softcap softcap = Softcap::none;
  LengthFamily lengths = LengthFamily::equal;  ///< What the caller expects.
  /// Rows that are appended to K and V, and turned, before anybody attends. What it has of the
  /// attention itself and of turned queries is filled in from here.
  std::optional<KvAppendParams> append = std::nullopt;
  ServingWorkspace workspace = {};
};

/// One merge of partial results. The type of the parts is that of the output, or fp32.
struct MergeStatesCall {
  MergeStatesParams params;
  OutputType part_type = OutputType::fp32;
  OutputType output_type = OutputType::bf16;
};

}  // namespace swr
