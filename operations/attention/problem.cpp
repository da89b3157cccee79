// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "core/reject.h"
#include "operations/attention/parts.h"
#include "operations/attention_fields.h"
#include <swr/attention_problem.h>

#include <algorithm>
#include <vector>

namespace swr {
namespace {

void require_positive(int value, const char* name) {
  if (value < 1) {
    reject(std::string(name) + " must be at least 1, not " + std::to_string(value));
  }
}

/// Keys seen by all query rows of one head together.
double visible_pairs(const AttentionProblem& problem) {
  const double rows = problem.seq_q;
  const double keys = problem.seq_kv;
  if (!problem.causal) {
    return rows * keys;
  }
  // Row i sees i + 1 + (keys - rows) keys, so the last row sees all; rows before the first key
  // see none.
  const double seeing_rows = std::min(rows, keys);
  return seeing_rows * (keys - seeing_rows) + seeing_rows * (seeing_rows + 1) / 2;
}

}  // namespace

void validate(const AttentionProblem& problem) {
  require_positive(problem.batch, "batch");
  require_positive(problem.heads_q, "heads");
  require_positive(problem.heads_kv, "kv-heads");
  require_positive(problem.seq_q, "seq");
  require_positive(problem.seq_kv, "seq-kv");
  if (problem.heads_q % problem.heads_kv != 0) {
    reject("heads (" + std::to_string(problem.heads_q) + ") must be a multiple of kv-heads (" +
           std::to_string(problem.heads_kv) + ")");
  }
  if (problem.head_dim < 16 || problem.head_dim > 256 || problem.head_dim % 16 != 0) {
    reject("head-dim must be a multiple of 16 from 16 to 256, not " +
           std::to_string(problem.head_dim));
  }
  constexpr long long kMaxHeads = 1 << 20;
  if (static_cast<long long>(problem.batch) * problem.heads_q > kMaxHeads) {
    reject("batch times heads must be at most 1048576");
  }
  constexpr int kMaxLength = 1 << 24;
  if (std::max(problem.seq_q, problem.seq_kv) > kMaxLength) {
    reject("sequence lengths must be at most 16777216");
  }
  constexpr long long kMaxRows = 1LL << 30;
  if (static_cast<long long>(problem.batch) * problem.heads_q * problem.seq_q > kMaxRows) {
    reject("batch times heads times seq must be at most 1073741824");
  }
  require_alignment(problem.alignment_bytes);
}

double flop_count(const AttentionProblem& problem) {
  return 4.0 * problem.batch * problem.heads_q * problem.head_dim * visible_pairs(problem);
}

CompulsoryBytes compulsory_bytes(const AttentionProblem& problem) {
  const long long row_bytes =
      static_cast<long long>(problem.head_dim) * element_bytes(problem.dtype) * problem.batch;
  const long long q = row_bytes * problem.heads_q * problem.seq_q;
  const long long k = row_bytes * problem.heads_kv * problem.seq_kv;
  return {.read = q + 2 * k, .write = q};
}

std::string to_string(const AttentionProblem& problem) {
  const auto pair = [](int a, int b) { return std::to_string(a) + "/" + std::to_string(b); };
  std::string text = "attention b" + std::to_string(problem.batch) + " h" +
                     pair(problem.heads_q, problem.heads_kv) + " s" +
                     pair(problem.seq_q, problem.seq_kv) + " d" + std::to_string(problem.head_dim) +
                     " " + std::string(to_string(problem.dtype));
  text += problem.causal ? " causal" : "";
  if (problem.alignment_bytes != 16) {
    text += " align" + std::to_string(problem.alignment_bytes);
  }
  return text;
}

std::span<const ProblemField> attention_fields() {
  using P = AttentionProblem;
  constexpr int kMostHeadDim = 256;
  static const std::vector<ProblemField> fields = with_attention_sizes<P>(
      "Sequence length", "Length of K and V",
      {number_field(&P::head_dim, kMostHeadDim, "head_dim",
                    "Elements per head; a multiple of 16 up to 256",
                    {.option = "head-dim", .usual = 64}),
       choice_field(&P::dtype, kDTypes, "dtype", "Type of the inputs, and of O",
                    {.option = "dtype"}),
       flag_field(&P::causal, "causal", "Mask the future, aligned to the last row and key",
                  {.option = "causal"}),
       alignment_field(&P::alignment_bytes)});
  return fields;
}

/// Lengths and head counts of K and V are named where they differ from those of Q.
std::string file_name_of(const AttentionProblem& problem) {
  const auto pair = [](int a, int b) {
    return std::to_string(a) + (a == b ? "" : "-" + std::to_string(b));
  };
  return "attention_b" + std::to_string(problem.batch) + "_h" +
         pair(problem.heads_q, problem.heads_kv) + "_s" + pair(problem.seq_q, problem.seq_kv) +
         "_d" + std::to_string(problem.head_dim) + "_" + std::string(to_string(problem.dtype)) +
         (problem.causal ? "_causal" : "") + alignment_suffix(problem.alignment_bytes);
}

/// Sections need more heads than this.
void enlarge_sizes(AttentionProblem& problem) {
  constexpr int kLarge = 1 << 20;
  problem.seq_q = 1;
  problem.seq_kv = 1;
  problem.heads_q = kLarge;
  problem.heads_kv = kLarge;
}

}  // namespace swr
