// SPDX-License-Identifier: MIT
// The C interface of attention as servers call it: structures that may be older or newer than the
// library become calls of the runtime.
#include "capi/from_c.h"
#include <swr/serving_attention_call.h>
#include <swr/swr_serving_c.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace {

using namespace swr::capi;

static_assert(static_cast<int>(swr::ServingMask::window) == SWR_MASK_WINDOW);
static_assert(static_cast<int>(swr::LengthFamily::equal) == SWR_LENGTHS_EQUAL);
static_assert(static_cast<int>(swr::LengthFamily::one_chunk) == SWR_LENGTHS_ONE_CHUNK);
static_assert(swr::ServingWorkspace::kZeroedBytes == SWR_WORKSPACE_ZEROED);

template <typename Enum>
Enum one_of(std::int32_t value, int most, const char* name) {
  if (value < 0 || value > most) {
    reject(std::string(name) + " must be 0 to " + std::to_string(most) + ", not " +
           std::to_string(value));
  }
  return static_cast<Enum>(value);
}

swr::SinkType sink_type_of(std::int32_t dtype) {
  switch (dtype) {
    case SWR_FP16:
      return swr::SinkType::fp16;
    case SWR_BF16:
      return swr::SinkType::bf16;
    case SWR_FP32:
      return swr::SinkType::fp32;
    default:
      reject("sink_dtype must be SWR_FP16, SWR_BF16 or SWR_FP32, not " + std::to_string(dtype));
  }
}

float lse_unit_of(std::int32_t in_base_2) {
  return in_base_2 != 0 ? 1.0F : std::numbers::ln2_v<float>;
}

/// Of the natural scale, as attention without a cap takes it, or of the cap.
void set_scale(swr::ServingAttentionCall& call, const swr_serving_attention& a) {
  swr::ServingAttentionParams& p = call.params;
  p.scale_log2 = scale_log2_of(a.scale);
  if (a.softcap == 0.0F) {
    return;
  }
  if (!(a.softcap > 0.0F) || std::isinf(a.softcap)) {
    reject("softcap must be positive, or 0 for none, not " + swr::fixed_text(a.softcap, 6));
  }
  const float scale =
      a.scale == 0.0F ? 1.0F / std::sqrt(static_cast<float>(std::max(1, a.head_dim))) : a.scale;
  call.softcap = a.accurate_softcap != 0 ? swr::Softcap::accurate : swr::Softcap::approximate;
  p.softcap_scale = scale / a.softcap;
  p.scale_log2 = a.softcap * std::numbers::log2e_v<float>;
}

swr::KvAppendParams append_from(const swr_kv_append& a) {
  swr::KvAppendParams append;
  append.k_new = a.k_new;
  append.v_new = a.v_new;
  append.k_new_strides = strides_from(a.k_new_strides);
  append.v_new_strides = strides_from(a.v_new_strides);
  append.total_k_new = a.total_k_new;
  append.rotary = {.cos = a.rotary_cos,
                   .sin = a.rotary_sin,
                   .stride = a.rotary_stride,
                   .dim = a.rotary_dim,
                   .interleaved = a.rotary_interleaved != 0,
                   .first_position = a.rotary_positions,
                   .advances_queries = a.queries_stay == 0};
  return append;
}

void add_append(swr::ServingAttentionCall& call, const swr_kv_append* given) {
  if (given == nullptr) {
    return;
  }
  const auto append = known(given, sizeof(swr_kv_append), "swr_kv_append");
  call.params.lengths.cu_seqlens_k_new = append.cu_seqlens_k_new;
  call.params.lengths.seq_k_new = append.seq_k_new;
  call.append = append_from(append);
  if (append.cu_seqlens_k_new == nullptr) {
    call.append->total_k_new = static_cast<long long>(call.params.batch) * append.seq_k_new;
  }
}

swr::ServingAttentionCall call_from(const swr_serving_attention* given) {
  const auto a = known(given, sizeof(swr_serving_attention), "swr_serving_attention");
  swr::ServingAttentionCall call{
      .params = {},
      .head_dim = a.head_dim,
      .head_dim_v = a.head_dim_v == 0 ? a.head_dim : a.head_dim_v,
      .dtype = dtype_of(a.dtype),
      .mask = one_of<swr::ServingMask>(a.mask, SWR_MASK_WINDOW, "mask"),
      .softcap = swr::Softcap::none,
      .lengths = one_of<swr::LengthFamily>(a.lengths, SWR_LENGTHS_ONE_CHUNK, "lengths"),
      .append = std::nullopt,
      .workspace = {a.workspace, a.workspace_bytes}};
  swr::ServingAttentionParams& p = call.params;
  p.q = a.q;
  p.k = a.k;
  p.v = a.v;
  p.o = a.o;
  p.lse = a.lse;
  p.q_strides = strides_from(a.q_strides);
  p.k_strides = strides_from(a.k_strides);
  p.v_strides = strides_from(a.v_strides);
  p.o_strides = strides_from(a.o_strides);
  p.lse_strides = strides_from(a.lse_strides);
  p.batch = a.batch;
  p.heads_q = a.heads_q;
  p.heads_kv = a.heads_kv;
  p.max_seq_q = a.max_seq_q;
  p.max_seq_kv = a.max_seq_kv;
  p.total_q = a.total_q;
  p.lengths = {.cu_seqlens_q = a.cu_seqlens_q,
               .seqused_q = a.seqused_q,
               .cu_seqlens_k = a.cu_seqlens_k,
               .seqused_k = a.seqused_k,
               .leftpad_k = a.leftpad_k,
               .kv_batch_index = a.kv_batch_index};
  p.pages = {.table = a.page_table,
             .table_stride = a.page_table_stride,
             .pages_per_sequence = a.pages_per_sequence,
             .indptr = a.page_indptr,
             .indices = a.page_indices,
             .last_page_len = a.last_page_len,
             .page_size = a.page_size};
  p.window = {.left = a.window_left, .right = a.window_right, .chunk = a.chunk};
  p.sinks = a.sinks;
  p.sink_type = a.sinks == nullptr ? swr::SinkType::fp32 : sink_type_of(a.sink_dtype);
  p.lse_unit = lse_unit_of(a.lse_in_base_2);
  p.lengths_are_ready = a.lengths_are_ready != 0;
  set_scale(call, a);
  add_append(call, a.append);
  return call;
}

swr::MergeStatesCall call_from(const swr_states* given) {
  const auto a = known(given, sizeof(swr_states), "swr_states");
  return {.params = {.parts = a.parts,
                     .part_lse = a.part_lse,
                     .o = a.o,
                     .lse = a.lse,
                     .part_strides = strides_from(a.part_strides),
                     .part_lse_strides = strides_from(a.part_lse_strides),
                     .o_strides = strides_from(a.o_strides),
                     .lse_strides = strides_from(a.lse_strides),
                     .part_count = a.part_count,
                     .heads = a.heads,
                     .rows = a.rows,
                     .head_dim = a.head_dim,
                     .lse_unit = lse_unit_of(a.lse_in_base_2)},
          .part_type = output_of(a.part_dtype),
          .output_type = output_of(a.output_dtype)};
}

}  // namespace

extern "C" {

swr_status swr_runtime_serving_attention(swr_runtime* runtime,
                                         const swr_serving_attention* attention, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(attention, "attention");
    runtime->runtime.attention(call_from(attention), static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_prepare_serving(swr_runtime* runtime, const swr_serving_attention* attention,
                                       int64_t* workspace_bytes) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(attention, "attention");
    const long long bytes = runtime->runtime.prepare(call_from(attention));
    if (workspace_bytes != nullptr) {
      *workspace_bytes = bytes;
    }
  });
}

swr_status swr_merge_states(swr_runtime* runtime, const swr_states* states, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(states, "states");
    runtime->runtime.merge_states(call_from(states), static_cast<CUstream_st*>(stream));
  });
}
}
