// SPDX-License-Identifier: MIT
// What is asked of attention over sequences of unequal length, and what is chosen for it.
#pragma once

#include "templates/attention_serving/config.h"
#include "templates/attention_serving/hopper/config.h"
#include <swr/problem.h>
#include <swr/serving_attention_call.h>
#include <swr/variant.h>

#include <compare>
#include <string_view>

namespace swr {

const Operation& serving_attention_operation();

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
  Mainloop mainloop = Mainloop::overlap_ordered;  ///< Of the Hopper family.

  auto operator<=>(const ServingAttentionVariant&) const = default;
  using ErasedAs = Variant;
  static const Operation& operation() { return serving_attention_operation(); }
};

/// The problem that a call poses. Looks at everything but where tensors lie.
/// Throws: Error{invalid_argument} naming what is wrong with the call.
ServingAttentionProblem problem_of(const ServingAttentionCall& call);

/// Throws: Error{invalid_argument} for tensors without memory, and for addresses and strides that
/// are no multiples of 16 bytes. Requires: problem_of(call) did not throw.
void require_tensors(const ServingAttentionCall& call);

std::string_view to_string(ServingMask value);
std::string_view to_string(Softcap value);
std::string_view to_string(KvSource value);
std::string_view to_string(PageCopy value);
std::string_view to_string(Deal value);

}  // namespace swr
