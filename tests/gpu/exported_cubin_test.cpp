// SPDX-License-Identifier: MIT
// A measured winner goes through the store and the export, and runs from the exported files with
// the driver's C interface alone.
#include "export/export.h"
#include "export/manifest.h"
#include "operations/gemm/buffers.h"
#include "operations/gemm/config.h"
#include "operations/gemm/kernel.h"
#include "tests/db/fixtures.h"
#include "tests/gpu/download.h"
#include "tests/gpu/driver_api_launcher.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/attention_oracle.h"
#include "tuner/measure/measuring_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <numbers>

namespace swr {
namespace {

AttentionProblem shipped_problem() {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seq_q = 150,
          .seq_kv = 170,
          .head_dim = 64,
          .dtype = DType::bf16,
          .causal = true};
}

AttentionVariant shipped_variant() {
  return {.tile_m = 64,
          .tile_n = 32,
          .warps = 4,
          .order = Order::sawtooth,
          .persistence = Persistence::persistent,
          .workers = 3,
          .swizzle = AttentionSwizzle::head_sections,
          .section_heads = 3};
}

/// bf16 values n / 64 with |n| < 128, which bf16 holds exactly.
std::vector<std::uint16_t> random_elements(std::mt19937& random, int rows, int head_dim) {
  std::uniform_int_distribution<int> numerator(-127, 127);
  std::vector<std::uint16_t> elements;
  for (int i = 0; i < rows * head_dim; ++i) {
    const float value = static_cast<float>(numerator(random)) / 64.0F;
    elements.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  return elements;
}

std::vector<double> decoded(const std::vector<std::uint16_t>& elements) {
  std::vector<double> values;
  for (const std::uint16_t element : elements) {
    values.push_back(decode_element(DType::bf16, element));
  }
  return values;
}

TensorStrides contiguous(int heads, int seq, int head_dim) {
  const long long row = head_dim;
  return {.batch = row * seq * heads, .head = row * seq, .seq = row};
}

/// What the caller of a shipped kernel knows of its own tensors.
AttentionParams arguments_for(const AttentionProblem& problem, int section_heads) {
  AttentionParams params;
  params.q_strides = contiguous(problem.heads_q, problem.seq_q, problem.head_dim);
  params.k_strides = contiguous(problem.heads_kv, problem.seq_kv, problem.head_dim);
  params.v_strides = params.k_strides;
  params.o_strides = params.q_strides;
  params.batch = problem.batch;
  params.heads_q = problem.heads_q;
  params.heads_kv = problem.heads_kv;
  params.seq_q = problem.seq_q;
  params.seq_kv = problem.seq_kv;
  params.scale_log2 =
      std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(problem.head_dim));
  params.section_heads = section_heads;
  return params;
}

class ExportedCubin : public GpuTest {
 protected:
  /// Measures the variant, stores the result and exports it.
  void export_winner(const Problem& problem, const Variant& variant) {
    const VariantResult result = measured(problem, variant);
    bench().context.make_current();  // The evaluator leaves none.
    ASSERT_EQ(result.state, ResultState::ok) << result.detail;
    Store store(directory_ / "tuned.db", Store::Mode::read_write);
    store.record(store.begin_run({}), problem, bench().device, result);
    export_kernels(store, bench().generator, out_);
  }

  static VariantResult measured(const Problem& problem, const Variant& variant) {
    MeasureOptions options;
    options.counters = false;
    MeasuringEvaluator evaluator(bench().generator, options);
    return evaluator.evaluate(problem, variant,
                              bench().generator.compile(problem, variant, bench().device.sm_arch));
  }

  TempDirectory directory_;
  std::filesystem::path out_ = directory_ / "out";
};

TEST_F(ExportedCubin, GivesTheRightOutputWithNothingButTheDriver) {
  ASSERT_NO_FATAL_FAILURE(export_winner(shipped_problem(), shipped_variant()));
  const Manifest manifest = read_manifest(out_);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  const ExportedKernel& kernel = manifest.kernels.front();
  EXPECT_FALSE(kernel.rebuilt);
  const auto& problem = kernel.problem.as<AttentionProblem>();
  EXPECT_EQ(problem, shipped_problem());

  std::mt19937 random(5);
  const int rows_q = problem.batch * problem.heads_q * problem.seq_q;
  const int rows_kv = problem.batch * problem.heads_kv * problem.seq_kv;
  const auto q = random_elements(random, rows_q, problem.head_dim);
  const auto k = random_elements(random, rows_kv, problem.head_dim);
  const auto v = random_elements(random, rows_kv, problem.head_dim);
  const ShippedKernel shipped{
      .cubin = read_cubin(out_, kernel),
      .entry = kernel.entry,
      .grid_x = static_cast<unsigned>(kernel.launch.grid_x),
      .block_x = static_cast<unsigned>(kernel.launch.block_x),
      .dynamic_smem_bytes = static_cast<unsigned>(kernel.launch.dynamic_smem_bytes)};
  const auto o =
      run_shipped_kernel(shipped, arguments_for(problem, kernel.launch.section_heads), q, k, v);
  const OracleOutputs expected = attention_oracle(problem, {decoded(q), decoded(k), decoded(v)});
  EXPECT_LT(relative_error(decoded(o), expected.o), 1e-2);
}

TEST_F(ExportedCubin, OfGemmGivesTheRightProduct) {
  const GemmProblem problem{.m = 300, .n = 264, .k = 520, .layout = GemmLayout::nn};
  const GemmVariant variant{.tile_m = 64,
                            .tile_n = 128,
                            .persistence = Persistence::persistent,
                            .workers = 3,
                            .k_order = Order::sawtooth,
                            .raster = Raster::serpentine,
                            .raster_group = 2,
                            .swizzle_stride = 128};
  ASSERT_NO_FATAL_FAILURE(export_winner(problem, variant));
  const Manifest manifest = read_manifest(out_);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  const ExportedKernel& exported = manifest.kernels.front();
  EXPECT_EQ(exported.problem, Problem(problem));
  EXPECT_EQ(exported.launch.grid_x, 3);

  const auto& shipped = exported.variant.as<GemmVariant>();
  const GemmReferenceKernels references(bench().generator, bench().device.sm_arch);
  const GemmBuffers buffers(problem, references, bench().stream, GemmInputs::binary, 1.0F, 0.0F);
  GemmKernel kernel({.entry = exported.entry,
                     .cubin = read_cubin(out_, exported),
                     .may_overlap = exported.may_overlap},
                    make_gemm_config(problem, shipped), shipped.workers);
  GemmParams params = make_gemm_params(problem, shipped);
  const GemmParams matrices = buffers.params();
  params.a = matrices.a;
  params.b = matrices.b;
  params.c = matrices.c;
  params.a_strides = matrices.a_strides;
  params.b_strides = matrices.b_strides;
  params.c_strides = matrices.c_strides;
  buffers.reset_output(bench().stream);
  kernel.launch(params, bench().stream.handle());
  EXPECT_EQ(buffers.compare(bench().stream).different_elements, 0.0);
  EXPECT_EQ(buffers.disturbed_words(bench().stream), 0U);
}

}  // namespace
}  // namespace swr
