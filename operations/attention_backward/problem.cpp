// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "core/reject.h"
#include "operations/attention_backward/parts.h"
#include "operations/attention_fields.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace swr {
namespace {

constexpr int kMostHeadDim = 256;

void require_between(long long value, long long least, long long most, const char* name) {
  if (value < least || value > most) {
    reject(std::string(name) + " must be " + std::to_string(least) + " to " + std::to_string(most) +
           ", not " + std::to_string(value));
  }
}

void require_columns(int value, int unit, const char* name) {
  if (value < unit || value > kMostHeadDim || value % unit != 0) {
    reject(std::string(name) + " must be a multiple of " + std::to_string(unit) + " from " +
           std::to_string(unit) + " to 256" + (unit == 32 ? " where one is more than 128" : "") +
           ", not " + std::to_string(value));
  }
}

/// "1024/128" or "128".
std::string pair(int a, int b) {
  return std::to_string(a) + (a == b ? "" : "/" + std::to_string(b));
}

}  // namespace

void validate(const AttentionBackwardProblem& problem) {
  constexpr int kMostBatch = 1 << 20;
  constexpr int kMostHeads = 1 << 15;
  constexpr int kMostLength = 1 << 24;
  constexpr long long kMostRows = 1LL << 30;
  require_between(problem.batch, 1, kMostBatch, "batch");
  require_between(problem.heads_q, 1, kMostHeads, "heads");
  require_between(problem.heads_kv, 1, kMostHeads, "kv-heads");
  require_between(problem.seq_q, 1, kMostLength, "seq");
  require_between(problem.seq_kv, 1, kMostLength, "seq-kv");
  if (problem.heads_q % problem.heads_kv != 0) {
    reject("heads (" + std::to_string(problem.heads_q) + ") must be a multiple of kv-heads (" +
           std::to_string(problem.heads_kv) + ")");
  }
  require_between(1LL * problem.batch * problem.heads_q * problem.seq_q, 1, kMostRows,
                  "batch times heads times seq");
  require_between(1LL * problem.batch * problem.heads_kv * problem.seq_kv, 1, kMostRows,
                  "batch times kv-heads times seq-kv");
  // Warps divide the columns where those of dK and dV do not fit the registers of one.
  const int unit = has_wide_heads(problem) ? 32 : 16;
  require_columns(problem.head_dim, unit, "head-dim");
  require_columns(problem.head_dim_v, unit, "head-dim-v");
  require_alignment(problem.alignment_bytes);
}

double visible_pairs(const AttentionBackwardProblem& problem) {
  const double rows = problem.seq_q;
  const double keys = problem.seq_kv;
  if (!problem.causal) {
    return rows * keys;
  }
  // The last row sees all keys, each row before it one less.
  const double seeing_rows = std::min(rows, keys);
  return seeing_rows * (keys - seeing_rows) + seeing_rows * (seeing_rows + 1) / 2;
}

double flop_count(const AttentionBackwardProblem& problem) {
  return 2.0 * (3 * problem.head_dim + 2 * problem.head_dim_v) * problem.batch * problem.heads_q *
         visible_pairs(problem);
}

CompulsoryBytes compulsory_bytes(const AttentionBackwardProblem& problem) {
  constexpr long long kElement = 2;
  constexpr long long kLse = 4;
  const long long rows = 1LL * problem.batch * problem.heads_q * problem.seq_q;
  const long long keys = 1LL * problem.batch * problem.heads_kv * problem.seq_kv;
  const long long of_keys = kElement * keys * (problem.head_dim + problem.head_dim_v);
  return {
      .read = kElement * rows * (problem.head_dim + 2 * problem.head_dim_v) + kLse * rows + of_keys,
      .write = kElement * rows * problem.head_dim + of_keys};
}

std::string to_string(const AttentionBackwardProblem& problem) {
  std::string text = "attention_backward b" + std::to_string(problem.batch) + " h" +
                     std::to_string(problem.heads_q) + "/" + std::to_string(problem.heads_kv) +
                     " s" + std::to_string(problem.seq_q) + "/" + std::to_string(problem.seq_kv) +
                     " d" + pair(problem.head_dim, problem.head_dim_v) + " " +
                     std::string(to_string(problem.dtype));
  text += problem.causal ? " causal" : "";
  text += problem.deterministic ? " deterministic" : "";
  if (problem.alignment_bytes != kMostAlignmentBytes) {
    text += " align" + std::to_string(problem.alignment_bytes);
  }
  return text;
}

std::string file_name_of(const AttentionBackwardProblem& problem) {
  std::string name = to_string(problem);
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '/', '-');
  return name;
}

/// Sections need many heads, and parts long walks.
void enlarge_sizes(AttentionBackwardProblem& problem) {
  constexpr int kManyHeads = 1 << 10;
  constexpr int kLong = 1 << 16;
  problem.heads_q = kManyHeads;
  problem.heads_kv = kManyHeads / 2;
  problem.seq_q = kLong;
  problem.seq_kv = kLong;
}

/// What serves a deterministic problem serves any; the other 16-bit type takes as long.
std::optional<AttentionBackwardProblem> near_kind_of(AttentionBackwardProblem problem, int index) {
  if (index == 0) {
    problem.dtype = problem.dtype == DType::fp16 ? DType::bf16 : DType::fp16;
    return problem;
  }
  if (index == 1 && !problem.deterministic) {
    problem.deterministic = true;
    return problem;
  }
  return std::nullopt;
}

std::span<const ProblemField> attention_backward_fields() {
  using P = AttentionBackwardProblem;
  static const std::vector<ProblemField> fields = with_attention_sizes<P>(
      "Sequence length", "Length of K and V",
      {number_field(&P::head_dim, kMostHeadDim, "head_dim",
                    "Elements per head; a multiple of 16, of 32 above 128, up to 256",
                    {.option = "head-dim", .usual = 64}),
       number_field(&P::head_dim_v, kMostHeadDim, "head_dim_v", "Elements per head of V",
                    {.option = "head-dim-v", .follows = "head_dim"}),
       choice_field(&P::dtype, kDTypes, "dtype", "Type of inputs and gradients",
                    {.option = "dtype"}),
       flag_field(&P::causal, "causal", "Mask the future, aligned to the last row and key",
                  {.option = "causal"}),
       flag_field(&P::deterministic, "deterministic", "Bitwise the same gradients on every run",
                  {.option = "deterministic"}),
       alignment_field(&P::alignment_bytes)});
  return fields;
}

}  // namespace swr
