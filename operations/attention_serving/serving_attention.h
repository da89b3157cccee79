// SPDX-License-Identifier: MIT
// What is asked of attention over sequences of unequal length, and what is chosen for it.
#pragma once

#include "templates/attention_serving/config.h"
#include <swr/problem.h>
#include <swr/serving_attention_params.h>
#include <swr/serving_axes.h>
#include <swr/variant.h>

#include <compare>
#include <string_view>

namespace swr {

const Operation& serving_attention_operation();

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

/// O = softmax(scale * Q K^T, masked) V over `batch` sequences, as ServingAttentionParams has it.
struct ServingAttentionProblem {
  int batch = 1;
  int heads_q = 1;
  int heads_kv = 1;
  int seq_q = 1;   ///< Most queries of a sequence.
  int seq_kv = 1;  ///< Most keys of a sequence.
  int head_dim = 64;
  int head_dim_v = 64;
  DType dtype = DType::fp16;
  ServingMask mask = ServingMask::causal;
  int window = 0;  ///< For ServingMask::window: keys before its own that a query sees.
  Softcap softcap = Softcap::none;
  int page_size = 16;  ///< Rows of a page; 0 when the rows of a sequence follow one another.
  bool sinks = false;
  bool leftpad = false;  ///< Rows before a sequence's first key.
  LengthFamily lengths = LengthFamily::equal;

  auto operator<=>(const ServingAttentionProblem&) const = default;
  using ErasedAs = Problem;
  static const Operation& operation() { return serving_attention_operation(); }
};

/// One choice on every axis; ServingAttentionConfig and ServingAttentionParams say what each means.
struct ServingAttentionVariant {
  Family family = Family::portable;
  int tile_m = 16;
  int tile_n = 64;
  int warps = 4;
  int stages = 2;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;
  int workers = 0;  ///< CTAs of a persistent launch or of ranges; 0 fills every resident slot.
  bool pack_gqa = false;
  Deal deal = Deal::ranges;
  PageCopy page_copy = PageCopy::row;
  ItemOrder item_order = ItemOrder::as_given;
  int section_heads = 1;
  int item_overhead = 1;
  int least_units = 1;

  auto operator<=>(const ServingAttentionVariant&) const = default;
  using ErasedAs = Variant;
  static const Operation& operation() { return serving_attention_operation(); }
};

/// One launch on device memory, as Runtime::launch() takes it. Choices of the launch, partials and
/// arrivals are ignored: the kernel that is chosen decides them. A scale_log2 of 0 stands for
/// log2(e) / sqrt(head_dim), without a softcap.
struct ServingAttentionCall {
  ServingAttentionParams params;
  int head_dim = 64;
  int head_dim_v = 64;
  DType dtype = DType::fp16;
  ServingMask mask = ServingMask::causal;
  Softcap softcap = Softcap::none;
  LengthFamily lengths = LengthFamily::equal;  ///< What the caller expects.
};

/// The problem that a call poses.
/// Throws: Error{invalid_argument} as validate(), and for a window that is not one of the past.
ServingAttentionProblem problem_of(const ServingAttentionCall& call);

std::string_view to_string(ServingMask value);
std::string_view to_string(Softcap value);
std::string_view to_string(KvSource value);
std::string_view to_string(PageCopy value);
std::string_view to_string(Deal value);

}  // namespace swr
