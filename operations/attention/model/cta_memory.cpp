// SPDX-License-Identifier: MIT
#include "operations/attention/model/cta_memory.h"

#include "operations/attention/config.h"
#include "templates/common/attention_schedule.h"
#include "templates/common/smem_layout.h"

#include <algorithm>
#include <numeric>

namespace swr {
namespace {

std::vector<NamedBytes> buffers_of(const PortableAttentionConfig& config) {
  const long long ring = static_cast<long long>(config.stages) * config.kv_tile_bytes();
  std::vector<NamedBytes> buffers{
      {"Q tile, later O", config.kv_offset()}, {"K ring", ring}, {"V ring", ring}};
  if (config.parks_work()) {
    buffers.push_back({"parked work", PortableAttentionConfig::kParkedBytes});
  }
  if (config.uses_tma()) {
    buffers.push_back({"barriers", config.smem_bytes() - config.barriers_offset()});
  }
  return buffers;
}

std::vector<NamedBytes> buffers_of(const HopperAttentionConfig& config) {
  std::vector<NamedBytes> buffers{
      {config.q_slots() == 2 ? "Q tiles, later O" : "Q tile, later O", config.k_offset()},
      {"K ring", config.v_offset() - config.k_offset()},
      {"V ring", config.p_offset() - config.v_offset()},
      {"P", config.p_tile_bytes()},
      {"work list and barriers", HopperAttentionConfig::kControlBytes}};
  std::erase_if(buffers, [](const NamedBytes& buffer) { return buffer.bytes == 0; });
  return buffers;
}

long long sum_of(const std::vector<TensorBytes>& tensors, long long TensorBytes::*member) {
  return std::accumulate(
      tensors.begin(), tensors.end(), 0LL,
      [member](long long sum, const TensorBytes& tensor) { return sum + tensor.*member; });
}

/// Rows of K that the Q tiles of one head read.
struct KvRows {
  long long most = 0;
  long long sum = 0;
};

KvRows kv_rows(const SequenceShape& shape, int tile_m, int tile_n) {
  KvRows rows;
  for (int q_index = 0; q_index < ceil_div(shape.q_rows(), tile_m); ++q_index) {
    const int tiles = kv_tile_count(q_index, tile_m, tile_n, shape);
    const long long read = std::min(tiles * tile_n, shape.seq_kv);
    rows.most = std::max(rows.most, read);
    rows.sum += read;
  }
  return rows;
}

}  // namespace

std::vector<NamedBytes> smem_buffers(const AttentionProblem& problem,
                                     const AttentionVariant& variant) {
  return std::visit([](const auto& config) { return buffers_of(config); },
                    make_family_config(problem, variant));
}

int bank_conflict_ways(const AttentionProblem& problem, const AttentionVariant& variant) {
  const bool is_swizzled = variant.family == Family::hopper || variant.smem_swizzle;
  return is_swizzled ? 1 : swizzle_group(problem.head_dim * 2 / kChunkBytes);
}

long long GlobalBytes::block() const { return sum_of(tensors, &TensorBytes::block); }
long long GlobalBytes::total() const { return sum_of(tensors, &TensorBytes::total); }
long long GlobalBytes::compulsory() const { return sum_of(tensors, &TensorBytes::compulsory); }
double GlobalBytes::amplification() const {
  return static_cast<double>(total()) / static_cast<double>(compulsory());
}

GlobalBytes global_bytes(const AttentionProblem& problem, int tile_m, int tile_n,
                         int packed_heads) {
  const SequenceShape shape{problem.seq_q, problem.seq_kv, problem.causal, packed_heads};
  const long long row_bytes =
      static_cast<long long>(problem.head_dim) * element_bytes(problem.dtype);
  const long long q_heads = static_cast<long long>(problem.batch) * problem.heads_q / packed_heads;
  const long long kv_heads = static_cast<long long>(problem.batch) * problem.heads_kv;
  const int q_tiles = ceil_div(shape.q_rows(), tile_m);
  const long long q_rows = shape.q_rows();
  const long long tile_rows = std::min<long long>(tile_m, q_rows);
  const KvRows keys = kv_rows(shape, tile_m, tile_n);
  const long long all_rows = q_heads * q_rows * row_bytes;
  const TensorBytes query{"", tile_rows * row_bytes, all_rows, all_rows};
  const TensorBytes key{"", keys.most * row_bytes, q_heads * keys.sum * row_bytes,
                        kv_heads * problem.seq_kv * row_bytes};
  GlobalBytes bytes{q_heads * q_tiles, {query, key, key, query}};
  constexpr const char* kNames[] = {"Q", "K", "V", "O"};
  for (std::size_t i = 0; i < bytes.tensors.size(); ++i) {
    bytes.tensors[i].tensor = kNames[i];
  }
  return bytes;
}

}  // namespace swr
