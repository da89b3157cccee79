// SPDX-License-Identifier: MIT
// The sizes that every form of attention is asked by, declared once.
#pragma once

#include "core/field_builders.h"

#include <array>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace swr {

/// Batch, heads and lengths of Owner, then `further`. The summaries say what the lengths are.
template <typename Owner>
std::vector<ProblemField> with_attention_sizes(std::string_view seq_q_summary,
                                               std::string_view seq_kv_summary,
                                               std::initializer_list<ProblemField> further) {
  std::vector<ProblemField> fields{
      size_field(&Owner::batch, "batch", "Batch size",
                 {.option = "batch", .usual = 1, .takes_list = true}),
      size_field(&Owner::heads_q, "heads_q", "Query heads", {.option = "heads", .usual = 1}),
      size_field(&Owner::heads_kv, "heads_kv", "Key and value heads",
                 {.option = "kv-heads", .follows = "heads_q"}),
      size_field(&Owner::seq_q, "seq_q", seq_q_summary,
                 {.option = "seq", .is_required = true, .takes_list = true}),
      size_field(&Owner::seq_kv, "seq_kv", seq_kv_summary,
                 {.option = "seq-kv", .follows = "seq_q"})};
  fields.insert(fields.end(), further);
  return fields;
}

inline constexpr std::array<std::string_view, 4> kAttentionMainloops{"plain", "mutex", "overlap",
                                                                     "overlap_ordered"};

}  // namespace swr
