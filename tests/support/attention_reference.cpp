// SPDX-License-Identifier: MIT
#include "tests/support/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace emulation {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A row of a tensor [batch, heads, seq, columns].
template <typename Tensor>
auto* row_of(Tensor& values, int heads, int seq, int columns, int b, int h, int s) {
  return values.data() + ((static_cast<long long>(b) * heads + h) * seq + s) * columns;
}

double dot(const double* a, const double* b, int count) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// One query row and what it meets.
class QueryRow {
 public:
  QueryRow(const AttentionCase& problem, const AttentionInputs& inputs, const Rounding& round,
           int b, int h, int row)
      : problem_(problem), inputs_(inputs), round_(round), b_(b), h_(h), row_(row) {}

  const double* q() const {
    return row_of(inputs_.q, problem_.heads_q, problem_.seq_q, problem_.head_dim, b_, h_, row_);
  }
  const double* d_o() const {
    return row_of(inputs_.d_o, problem_.heads_q, problem_.seq_q, problem_.value_dim, b_, h_, row_);
  }
  const double* k(int key) const {
    return row_of(inputs_.k, problem_.heads_kv, problem_.seq_kv, problem_.head_dim, b_,
                  problem_.kv_head(h_), key);
  }
  const double* v(int key) const {
    return row_of(inputs_.v, problem_.heads_kv, problem_.seq_kv, problem_.value_dim, b_,
                  problem_.kv_head(h_), key);
  }

  SoftmaxRow softmax() const {
    Values scores;
    for (int key = 0; key < problem_.visible_keys(row_); ++key) {
      scores.push_back(rounded(rounded(dot(q(), k(key), problem_.head_dim)) * problem_.scale));
    }
    SoftmaxRow result = softmax_of(std::move(scores));
    for (double& value : result.p) {
      value = rounded(value);
    }
    return result;
  }

  /// Gradients of the unscaled scores of the visible keys.
  Values d_scores(const Values& p) const {
    Values d_p;
    double sum = 0.0;
    for (int key = 0; key < static_cast<int>(p.size()); ++key) {
      d_p.push_back(rounded(dot(d_o(), v(key), problem_.value_dim)));
      sum += p[static_cast<std::size_t>(key)] * d_p.back();
    }
    const double of_lse = inputs_.d_lse.empty()
                              ? 0.0
                              : inputs_.d_lse[static_cast<std::size_t>(
                                    (b_ * problem_.heads_q + h_) * problem_.seq_q + row_)];
    for (std::size_t key = 0; key < p.size(); ++key) {
      d_p[key] = rounded(rounded(p[key] * (d_p[key] - sum + of_lse)) * problem_.scale);
    }
    return d_p;
  }

 private:
  double rounded(double value) const { return round_ ? round_(value) : value; }

  const AttentionCase& problem_;
  const AttentionInputs& inputs_;
  const Rounding& round_;
  int b_;
  int h_;
  int row_;
};

template <typename Take>
void for_each_row(const AttentionCase& problem, const Take& take) {
  for (int b = 0; b < problem.batch; ++b) {
    for (int h = 0; h < problem.heads_q; ++h) {
      for (int row = 0; row < problem.seq_q; ++row) {
        take(b, h, row);
      }
    }
  }
}

Values zeros(int batch, int heads, int seq, int columns) {
  return Values(static_cast<std::size_t>(batch) * static_cast<std::size_t>(heads) *
                    static_cast<std::size_t>(seq) * static_cast<std::size_t>(columns),
                0.0);
}

void add_scaled(double* target, const double* source, double factor, int count) {
  for (int i = 0; i < count; ++i) {
    target[i] += factor * source[i];
  }
}

double squared(double value) { return value * value; }

/// Squares of the sizes, apart from those of the gradients themselves.
class SizesOfTerms {
 public:
  explicit SizesOfTerms(const AttentionCase& problem)
      : problem_(problem),
        dq_(zeros(problem.batch, problem.heads_q, problem.seq_q, 1)),
        dk_(zeros(problem.batch, problem.heads_kv, problem.seq_kv, 1)),
        dv_(dk_) {}

  void add(const QueryRow& query, const Values& p, const Values& d_s, int b, int h, int row) {
    const double of_delta = problem_.scale * error_of_delta(query, p);
    const double q = dot(query.q(), query.q(), problem_.head_dim);
    const double d_o = dot(query.d_o(), query.d_o(), problem_.value_dim);
    Values mean_key(static_cast<std::size_t>(problem_.head_dim), 0.0);
    double& dq = *row_of(dq_, problem_.heads_q, problem_.seq_q, 1, b, h, row);
    const int kv = problem_.kv_head(h);
    for (int key = 0; key < static_cast<int>(p.size()); ++key) {
      const auto at = static_cast<std::size_t>(key);
      const double* const k = query.k(key);
      dq += squared(d_s[at]) * dot(k, k, problem_.head_dim);
      add_scaled(mean_key.data(), k, p[at], problem_.head_dim);
      *row_of(dk_, problem_.heads_kv, problem_.seq_kv, 1, b, kv, key) +=
          (squared(d_s[at]) + squared(of_delta * p[at])) * q;
      *row_of(dv_, problem_.heads_kv, problem_.seq_kv, 1, b, kv, key) += squared(p[at]) * d_o;
    }
    dq += squared(of_delta) * dot(mean_key.data(), mean_key.data(), problem_.head_dim);
  }

  GradientSizes with(const AttentionGradients& exact) const {
    return {with(dq_, exact.dq), with(dk_, exact.dk), with(dv_, exact.dv)};
  }

 private:
  /// In units, one standard deviation.
  double error_of_delta(const QueryRow& query, const Values& p) const {
    Values o(static_cast<std::size_t>(problem_.value_dim), 0.0);
    for (int key = 0; key < static_cast<int>(p.size()); ++key) {
      add_scaled(o.data(), query.v(key), p[static_cast<std::size_t>(key)], problem_.value_dim);
    }
    double squares = 0.0;
    for (std::size_t i = 0; i < o.size(); ++i) {
      squares += squared(o[i] * query.d_o()[i]);
    }
    return std::sqrt(squares);
  }

  static Values with(Values squares, const Values& gradient) {
    // Below its least normal number fp16 rounds by as much as there.
    constexpr double kLeastNormal = 0x1p-14;
    const std::size_t columns = squares.empty() ? 1 : gradient.size() / squares.size();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      squares[i / columns] += squared(gradient[i]) + squared(kLeastNormal);
    }
    std::transform(squares.begin(), squares.end(), squares.begin(),
                   [](double value) { return std::sqrt(value); });
    return squares;
  }

  const AttentionCase& problem_;
  Values dq_;
  Values dk_;
  Values dv_;
};

AttentionGradients sums_of(const AttentionCase& problem, const AttentionInputs& inputs,
                           const Rounding& round, bool hidden_too, SizesOfTerms* sizes = nullptr) {
  AttentionGradients result{
      zeros(problem.batch, problem.heads_q, problem.seq_q, problem.head_dim),
      zeros(problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim),
      zeros(problem.batch, problem.heads_kv, problem.seq_kv, problem.value_dim)};
  for_each_row(problem, [&](int b, int h, int row) {
    const QueryRow query(problem, inputs, round, b, h, row);
    Values p = query.softmax().p;
    if (hidden_too) {
      p.resize(static_cast<std::size_t>(problem.seq_kv), 0.0);
    }
    const Values d_s = query.d_scores(p);
    if (sizes != nullptr) {
      sizes->add(query, p, d_s, b, h, row);
    }
    double* const dq =
        row_of(result.dq, problem.heads_q, problem.seq_q, problem.head_dim, b, h, row);
    for (int key = 0; key < static_cast<int>(p.size()); ++key) {
      const auto at = static_cast<std::size_t>(key);
      const int kv = problem.kv_head(h);
      add_scaled(dq, query.k(key), d_s[at], problem.head_dim);
      add_scaled(row_of(result.dk, problem.heads_kv, problem.seq_kv, problem.head_dim, b, kv, key),
                 query.q(), d_s[at], problem.head_dim);
      add_scaled(row_of(result.dv, problem.heads_kv, problem.seq_kv, problem.value_dim, b, kv, key),
                 query.d_o(), p[at], problem.value_dim);
    }
  });
  if (round) {
    for (Values* const values : {&result.dq, &result.dk, &result.dv}) {
      std::transform(values->begin(), values->end(), values->begin(), round);
    }
  }
  return result;
}

}  // namespace

int AttentionCase::visible_keys(int row) const {
  return causal ? std::clamp(row + seq_kv - seq_q + 1, 0, seq_kv) : seq_kv;
}

SoftmaxRow softmax_of(Values scores, double sink) {
  SoftmaxRow result{.p = std::move(scores)};
  double maximum = sink;
  for (const double score : result.p) {
    maximum = std::isnan(score) || std::isnan(maximum) ? NAN : std::max(maximum, score);
  }
  if (maximum == -kInfinity) {
    std::fill(result.p.begin(), result.p.end(), 0.0);
    return result;
  }
  double sum = std::exp(sink - maximum);
  for (double& value : result.p) {
    value = std::exp(value - maximum);
    sum += value;
  }
  for (double& value : result.p) {
    value /= sum;
  }
  result.lse = maximum + std::log(sum);
  return result;
}

AttentionOutputs attention(const AttentionCase& problem, const AttentionInputs& inputs) {
  AttentionOutputs result{zeros(problem.batch, problem.heads_q, problem.seq_q, problem.value_dim),
                          {}};
  const Rounding none;
  for_each_row(problem, [&](int b, int h, int row) {
    const QueryRow query(problem, inputs, none, b, h, row);
    const SoftmaxRow softmax = query.softmax();
    result.lse.push_back(softmax.lse);
    double* const o =
        row_of(result.o, problem.heads_q, problem.seq_q, problem.value_dim, b, h, row);
    for (int key = 0; key < static_cast<int>(softmax.p.size()); ++key) {
      add_scaled(o, query.v(key), softmax.p[static_cast<std::size_t>(key)], problem.value_dim);
    }
  });
  return result;
}

AttentionGradients attention_gradients(const AttentionCase& problem, const AttentionInputs& inputs,
                                       const Rounding& round) {
  return sums_of(problem, inputs, round, false);
}

AttentionGradients attention_gradients(const AttentionCase& problem, const AttentionInputs& inputs,
                                       GradientSizes& sizes) {
  SizesOfTerms terms(problem);
  AttentionGradients exact = sums_of(problem, inputs, nullptr, false, &terms);
  sizes = terms.with(exact);
  return exact;
}

GradientError gradient_error(const Values& found, const Values& exact, const Values& sizes) {
  GradientError result;
  const std::size_t columns = sizes.empty() ? 1 : exact.size() / sizes.size();
  double all = 0.0;
  double size_of_all = 0.0;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    double squares = 0.0;
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      squares += squared(found[i] - exact[i]);
    }
    squares = std::isfinite(squares) ? squares : kInfinity;
    all += squares;
    size_of_all += squared(sizes[row]);
    const double error = std::sqrt(squares) / sizes[row];
    if (error > result.row) {
      result.row = error;
      result.worst_row = static_cast<long long>(row);
    }
  }
  result.all = sizes.empty() ? 0.0 : std::sqrt(all / size_of_all);
  return result;
}

AttentionGradients attention_gradients_of_all_pairs(const AttentionCase& problem,
                                                    const AttentionInputs& inputs) {
  return sums_of(problem, inputs, nullptr, true);
}

}  // namespace emulation
