// SPDX-License-Identifier: MIT
#include "tests/support/attention_oracle.h"

#include <swr/attention_problem.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace swr {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

using Row = std::span<const double>;

/// Row `row` of head `head` of a contiguous [heads, seq, head_dim] array.
Row row_of(const std::vector<double>& tensor, int head, int row, int seq, int head_dim) {
  const auto index = static_cast<std::size_t>(head) * static_cast<std::size_t>(seq) +
                     static_cast<std::size_t>(row);
  const auto length = static_cast<std::size_t>(head_dim);
  return Row(tensor).subspan(index * length, length);
}

double dot(Row a, Row b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// Scaled scores of one query row against every key it sees, keys from 0.
std::vector<double> visible_scores(const AttentionProblem& problem, const OracleInputs& inputs,
                                   int head_q, int head_kv, int row) {
  const Row query = row_of(inputs.q, head_q, row, problem.seq_q, problem.head_dim);
  const int last_key = problem.causal ? row + problem.seq_kv - problem.seq_q : problem.seq_kv - 1;
  std::vector<double> scores;
  for (int key = 0; key <= last_key; ++key) {
    scores.push_back(dot(query, row_of(inputs.k, head_kv, key, problem.seq_kv, problem.head_dim)) /
                     std::sqrt(problem.head_dim));
  }
  return scores;
}

/// Minus infinity where there is no larger score; NaN where one is NaN or plus infinity.
double log_sum_exp(const std::vector<double>& scores) {
  double maximum = kMinusInfinity;
  for (const double score : scores) {
    maximum = std::isnan(score) ? score : std::max(score, maximum);
  }
  if (maximum == kMinusInfinity) {
    return kMinusInfinity;
  }
  double sum = 0.0;
  for (const double score : scores) {
    sum += std::exp(score - maximum);
  }
  return maximum + std::log(sum);
}

}  // namespace

OracleOutputs attention_oracle(const AttentionProblem& problem, const OracleInputs& inputs) {
  OracleOutputs outputs;
  const int group = problem.heads_q / problem.heads_kv;
  for (int head = 0; head < problem.batch * problem.heads_q; ++head) {
    // heads_q is a multiple of heads_kv, so the division also carries the batch index over.
    const int head_kv = head / group;
    for (int row = 0; row < problem.seq_q; ++row) {
      const std::vector<double> scores = visible_scores(problem, inputs, head, head_kv, row);
      const double lse = log_sum_exp(scores);
      std::vector<double> output(static_cast<std::size_t>(problem.head_dim), 0.0);
      const std::size_t keys = lse == kMinusInfinity ? 0 : scores.size();
      for (std::size_t key = 0; key < keys; ++key) {
        const Row value =
            row_of(inputs.v, head_kv, static_cast<int>(key), problem.seq_kv, problem.head_dim);
        for (std::size_t column = 0; column < output.size(); ++column) {
          output[column] += std::exp(scores[key] - lse) * value[column];
        }
      }
      outputs.o.insert(outputs.o.end(), output.begin(), output.end());
      outputs.lse.push_back(lse);
    }
  }
  return outputs;
}

double decode_element(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace swr
