// SPDX-License-Identifier: MIT
// The bound on the errors of gradients: rounding of O, P, dS and results in otherwise exact
// arithmetic stays within it, also where a gradient cancels, and faults do not.
#include "tests/emulation/attention_backward_reference.h"
#include "tests/support/float16.h"
#include "tests/support/test.h"

namespace emulation {
namespace {

using swr::DType;

double unit_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }

double rounded_to(DType dtype, double value) {
  return swr::value_of(swr::bits_of(static_cast<float>(value), dtype), dtype);
}

/// As the program drew the elements of a seed with which ErrorsSeenOnAGpuComeOfARoundedO was found.
AttentionInputs drawn_inputs(const AttentionCase& problem, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  const auto drawn = [&](int heads, int seq, int columns) {
    std::normal_distribution<float> normal;
    Values values(static_cast<std::size_t>(problem.batch * heads * seq * columns));
    for (double& value : values) {
      value = rounded_to(dtype, static_cast<double>(normal(random)));
    }
    return values;
  };
  AttentionInputs inputs;
  inputs.q = drawn(problem.heads_q, problem.seq_q, problem.head_dim);
  inputs.k = drawn(problem.heads_kv, problem.seq_kv, problem.head_dim);
  inputs.v = drawn(problem.heads_kv, problem.seq_kv, problem.value_dim);
  inputs.d_o = drawn(problem.heads_q, problem.seq_q, problem.value_dim);
  return inputs;
}

/// What kernels compute, in fp64 but for what they round to 16 bits: O before delta, P and dS
/// before the products with them, and the gradients.
AttentionGradients as_kernels_round(const AttentionCase& c, const AttentionInputs& in,
                                    DType dtype) {
  const AttentionOutputs forward = attention(c, in);
  AttentionGradients out{Values(in.q.size()), Values(in.k.size()), Values(in.v.size())};
  const auto place = [](int heads, int seq, int columns, int b, int h, int s) {
    return static_cast<std::size_t>(((b * heads + h) * seq + s) * columns);
  };
  const auto d = static_cast<std::size_t>(c.head_dim);
  const auto dv = static_cast<std::size_t>(c.value_dim);
  for (int b = 0; b < c.batch; ++b) {
    for (int h = 0; h < c.heads_q; ++h) {
      for (int row = 0; row < c.seq_q; ++row) {
        const std::size_t q = place(c.heads_q, c.seq_q, c.head_dim, b, h, row);
        const std::size_t o = place(c.heads_q, c.seq_q, c.value_dim, b, h, row);
        double delta = 0.0;
        for (std::size_t i = 0; i < dv; ++i) {
          delta += in.d_o[o + i] * rounded_to(dtype, forward.o[o + i]);
        }
        for (int key = 0; key < c.visible_keys(row); ++key) {
          const std::size_t k = place(c.heads_kv, c.seq_kv, c.head_dim, b, c.kv_head(h), key);
          const std::size_t v = place(c.heads_kv, c.seq_kv, c.value_dim, b, c.kv_head(h), key);
          double s = 0.0;
          double dp = 0.0;
          for (std::size_t i = 0; i < d; ++i) {
            s += in.q[q + i] * in.k[k + i];
          }
          for (std::size_t i = 0; i < dv; ++i) {
            dp += in.d_o[o + i] * in.v[v + i];
          }
          const double p =
              std::exp(s * c.scale - forward.lse[place(c.heads_q, c.seq_q, 1, b, h, row)]);
          const double ds = rounded_to(dtype, p * (dp - delta));
          for (std::size_t i = 0; i < d; ++i) {
            out.dq[q + i] += ds * in.k[k + i];
            out.dk[k + i] += ds * in.q[q + i];
          }
          for (std::size_t i = 0; i < dv; ++i) {
            out.dv[v + i] += rounded_to(dtype, p) * in.d_o[o + i];
          }
        }
      }
    }
  }
  for (Values* const values : {&out.dq, &out.dk}) {
    for (double& value : *values) {
      value = rounded_to(dtype, value * c.scale);
    }
  }
  for (double& value : out.dv) {
    value = rounded_to(dtype, value);
  }
  return out;
}

/// Of the gradient's own norm, which says nothing where it cancels.
double relative_to_norm(const Values& found, const Values& exact) {
  double error = 0.0;
  double size = 1e-6 * static_cast<double>(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (found[i] - exact[i]) * (found[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

AttentionCase small_case(int seq_q, int seq_kv, int head_dim, bool causal) {
  return {.seq_q = seq_q,
          .seq_kv = seq_kv,
          .head_dim = head_dim,
          .value_dim = head_dim,
          .causal = causal,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim))};
}

void expect_rounding(const AttentionCase& problem, const AttentionInputs& inputs, DType dtype) {
  GradientSizes sizes;
  const AttentionGradients exact = attention_gradients(problem, inputs, sizes);
  const AttentionGradients found = as_kernels_round(problem, inputs, dtype);
  const auto expect = [&](const char* name, const Values& a, const Values& b, const Values& size) {
    const GradientError error = gradient_error(a, b, size);
    EXPECT_TRUE(error.is_rounding(unit_of(dtype)))
        << name << " of " << problem.seq_q << " rows and " << problem.seq_kv
        << " keys: " << error.all / unit_of(dtype) << " and " << error.row / unit_of(dtype)
        << " units";
  };
  expect("dQ", found.dq, exact.dq, sizes.dq);
  expect("dK", found.dk, exact.dk, sizes.dk);
  expect("dV", found.dv, exact.dv, sizes.dv);
}

/// A problem that was found as far from fp64 as it says, on an H200
/// (experiments/attention_backward).
struct Seen {
  unsigned seed;
  AttentionCase problem;
  double dq;
  double dk;
};

TEST(GradientBound, ErrorsSeenOnAGpuComeOfARoundedO) {
  const Seen all[] = {{273, small_case(85, 2, 128, true), 2.18e-2, 2.05e-2},
                      {19117, small_case(2, 2, 256, true), 5.58e-2, 5.32e-2},
                      {23160, small_case(2, 2, 128, true), 1.23e-2, 1.19e-2}};
  for (const Seen& seen : all) {
    const AttentionInputs inputs = drawn_inputs(seen.problem, DType::bf16, seen.seed);
    const AttentionGradients exact = attention_gradients(seen.problem, inputs);
    const AttentionGradients found = as_kernels_round(seen.problem, inputs, DType::bf16);
    EXPECT_NEAR(relative_to_norm(found.dq, exact.dq), seen.dq, 0.02 * seen.dq) << seen.seed;
    EXPECT_NEAR(relative_to_norm(found.dk, exact.dk), seen.dk, 0.02 * seen.dk) << seen.seed;
    expect_rounding(seen.problem, inputs, DType::bf16);
  }
}

TEST(GradientBound, RoundingOfFewKeysStaysWithin) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto from = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const int head_dim = 16 << from(0, 3);
    const AttentionCase problem = small_case(from(1, 6), from(1, 6), head_dim, from(0, 1) == 1);
    const DType dtype = from(0, 1) == 1 ? DType::bf16 : DType::fp16;
    expect_rounding(problem, drawn_inputs(problem, dtype, static_cast<unsigned>(i)), dtype);
  }
}

TEST(GradientBound, RoundingOfManyKeysStaysWithin) {
  for (const bool causal : {false, true}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      const AttentionCase problem = small_case(150, 200, 64, causal);
      expect_rounding(problem, drawn_inputs(problem, dtype, 9), dtype);
    }
  }
}

/// One row off by 3 % shows, whichever it is, and so do all off by 1.5 %.
TEST(GradientBound, AFaultOfOneRowShows) {
  const AttentionCase problem = small_case(128, 128, 128, false);
  const AttentionInputs inputs = drawn_inputs(problem, DType::bf16, 4);
  GradientSizes sizes;
  const AttentionGradients exact = attention_gradients(problem, inputs, sizes);
  const AttentionGradients right = as_kernels_round(problem, inputs, DType::bf16);
  const auto check = [](const Values& good, const Values& truth, const Values& size) {
    const auto columns = static_cast<std::ptrdiff_t>(truth.size() / size.size());
    for (std::ptrdiff_t row = 0; row < static_cast<std::ptrdiff_t>(size.size()); ++row) {
      Values wrong = good;
      std::for_each(wrong.begin() + row * columns, wrong.begin() + (row + 1) * columns,
                    [](double& value) { value *= 1.03; });
      const GradientError error = gradient_error(wrong, truth, size);
      EXPECT_FALSE(error.is_rounding(0x1p-8)) << row << ": " << error.row * 0x1p8 << " units";
      EXPECT_EQ(error.worst_row, row);
    }
    Values wrong = good;
    std::for_each(wrong.begin(), wrong.end(), [](double& value) { value *= 1.015; });
    EXPECT_FALSE(gradient_error(wrong, truth, size).is_rounding(0x1p-8));
  };
  check(right.dq, exact.dq, sizes.dq);
  check(right.dk, exact.dk, sizes.dk);
  check(right.dv, exact.dv, sizes.dv);
}

TEST(GradientBound, WhatIsNotFiniteIsNoRounding) {
  const Values exact(32, 1.0);
  const Values sizes(2, 4.0);
  EXPECT_TRUE(gradient_error(exact, exact, sizes).is_rounding(0x1p-8));
  for (const double bad : {NAN, INFINITY}) {
    Values found = exact;
    found[20] = bad;
    const GradientError error = gradient_error(found, exact, sizes);
    EXPECT_FALSE(error.is_rounding(0x1p-8));
    EXPECT_EQ(error.worst_row, 1);
  }
}

}  // namespace
}  // namespace emulation
