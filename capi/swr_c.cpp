// SPDX-License-Identifier: MIT
// The C interface over Lookup and Runtime: copies structures.
#include "capi/from_c.h"
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/lookup.h>
#include <swr/runtime.h>
#include <swr/swr_c.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

struct swr_lookup {
  swr_lookup(const std::optional<std::filesystem::path>& database,
             const swr::LookupOptions& options)
      : lookup(database ? swr::Lookup(*database, options) : swr::Lookup(options)) {}

  swr::Lookup lookup;
};

namespace {

using namespace swr::capi;

static_assert(static_cast<int>(swr::ErrorCode::invalid_argument) + 1 == SWR_INVALID_ARGUMENT);
static_assert(static_cast<int>(swr::ErrorCode::not_compiled) + 1 == SWR_NOT_COMPILED);
static_assert(static_cast<int>(swr::MatchLevel::predicted) == SWR_PREDICTED);
static_assert(static_cast<int>(swr::MatchLevel::modelled) == SWR_MODELLED);
static_assert(static_cast<int>(swr::DType::bf16) == SWR_BF16);
static_assert(static_cast<int>(swr::OutputType::bf16) == SWR_BF16);
static_assert(static_cast<int>(swr::OutputType::fp32) == SWR_FP32);
static_assert(static_cast<int>(swr::GemmLayout::tn) == SWR_TN);

swr::GemmLayout layout_of(std::int32_t value) {
  if (value < SWR_NT || value > SWR_TN) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     "layout must be SWR_NT, SWR_NN or SWR_TN, not " + std::to_string(value));
  }
  return static_cast<swr::GemmLayout>(value);
}

swr::AttentionProblem problem_from(const swr_problem& problem) {
  return {.batch = problem.batch,
          .heads_q = problem.heads_q,
          .heads_kv = problem.heads_kv,
          .seq_q = problem.seq_q,
          .seq_kv = problem.seq_kv,
          .head_dim = problem.head_dim,
          .dtype = dtype_of(problem.dtype),
          .causal = problem.causal != 0,
          .alignment_bytes = problem.alignment_bytes};
}

swr_problem problem_to_c(const swr::AttentionProblem& problem) {
  return {problem.batch,
          problem.heads_q,
          problem.heads_kv,
          problem.seq_q,
          problem.seq_kv,
          problem.head_dim,
          static_cast<std::int32_t>(problem.dtype),
          problem.causal ? 1 : 0,
          problem.alignment_bytes};
}

swr::GemmProblem problem_from(const swr_gemm_problem& problem) {
  return {.m = problem.m,
          .n = problem.n,
          .k = problem.k,
          .batch = problem.batch,
          .dtype = dtype_of(problem.dtype),
          .output = output_of(problem.output),
          .layout = layout_of(problem.layout),
          .reads_c = problem.reads_c != 0,
          .alignment_bytes = problem.alignment_bytes};
}

swr_gemm_problem problem_to_c(const swr::GemmProblem& problem) {
  return {problem.m,
          problem.n,
          problem.k,
          problem.batch,
          static_cast<std::int32_t>(problem.dtype),
          static_cast<std::int32_t>(problem.output),
          static_cast<std::int32_t>(problem.layout),
          problem.reads_c ? 1 : 0,
          problem.alignment_bytes};
}

template <std::size_t Size>
void copy_text(const std::string& text, char (&to)[Size]) {
  const std::size_t length = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

swr_device device_to_c(const swr::DeviceInfo& device) {
  swr_device result{};
  copy_text(device.name, result.name);
  result.sm_arch = device.sm_arch;
  result.sm_count = device.sm_count;
  result.l2_bytes = device.l2_bytes;
  result.dram_gb_per_s = device.dram_gb_per_s;
  result.mig = device.mig ? 1 : 0;
  result.smem_per_cta_bytes = device.smem_per_cta_bytes;
  result.smem_per_sm_bytes = device.smem_per_sm_bytes;
  result.smem_reserved_per_cta_bytes = device.smem_reserved_per_cta_bytes;
  result.registers_per_sm = device.registers_per_sm;
  result.max_threads_per_sm = device.max_threads_per_sm;
  result.max_ctas_per_sm = device.max_ctas_per_sm;
  return result;
}

/// `COf` is swr_answer or swr_gemm_answer, `Problem` what it answers.
template <typename COf, typename Problem>
COf answer_to_c(const swr::Answer& answer) {
  COf result{};
  copy_text(to_key(answer.variant), result.variant);
  result.match = static_cast<std::int32_t>(answer.level);
  result.on_same_device = answer.on_same_device ? 1 : 0;
  result.distance = answer.distance;
  result.time_us = answer.time_us.value_or(-1.0);
  result.l2_misses = answer.l2_misses.value_or(-1);
  result.result_id = answer.result_id;
  result.stored_problem = problem_to_c(answer.stored_problem.as<Problem>());
  return result;
}

swr_answer c_answer(const swr::Answer& answer, const swr_problem& /*asked*/) {
  return answer_to_c<swr_answer, swr::AttentionProblem>(answer);
}
swr_gemm_answer c_answer(const swr::Answer& answer, const swr_gemm_problem& /*asked*/) {
  return answer_to_c<swr_gemm_answer, swr::GemmProblem>(answer);
}

std::optional<std::filesystem::path> path_from(const char* path) {
  return path == nullptr ? std::nullopt : std::optional<std::filesystem::path>(path);
}

swr::LookupOptions lookup_options_from(const char* l2_state) {
  swr::LookupOptions options;
  if (l2_state != nullptr) {
    options.setting.l2_state = swr::parse_l2_state(l2_state);
  }
  return options;
}

swr::RuntimeOptions options_from(const swr_runtime_options& options) {
  swr::RuntimeOptions result;
  result.database = path_from(options.database);
  result.lookup = lookup_options_from(options.l2_state);
  result.exported = path_from(options.exported);
  result.generator.cache_dir = path_from(options.cache_dir);
  result.generator.nvrtc_library = path_from(options.nvrtc);
  result.may_compile = options.may_compile != 0;
  return result;
}

swr::AttentionCall call_from(const swr_attention& a) {
  swr::AttentionCall call{
      .head_dim = a.head_dim, .dtype = dtype_of(a.dtype), .causal = a.causal != 0};
  swr::AttentionParams& p = call.params;
  p.q = a.q;
  p.k = a.k;
  p.v = a.v;
  p.o = a.o;
  p.lse = a.lse;
  p.q_strides = strides_from(a.q_strides);
  p.k_strides = strides_from(a.k_strides);
  p.v_strides = strides_from(a.v_strides);
  p.o_strides = strides_from(a.o_strides);
  p.batch = a.batch;
  p.heads_q = a.heads_q;
  p.heads_kv = a.heads_kv;
  p.seq_q = a.seq_q;
  p.seq_kv = a.seq_kv;
  p.scale_log2 = scale_log2_of(a.scale);
  return call;
}

swr::MatrixStrides strides_from(const swr_matrix_strides& strides) {
  return {strides.batch, strides.row};
}

/// Everything but the types of elements.
swr::GemmCall untyped_call_from(const swr_gemm& g) {
  swr::GemmCall call{.layout = layout_of(g.layout)};
  swr::GemmParams& p = call.params;
  p.a = g.a;
  p.b = g.b;
  p.c = g.c;
  p.a_strides = strides_from(g.a_strides);
  p.b_strides = strides_from(g.b_strides);
  p.c_strides = strides_from(g.c_strides);
  p.m = g.m;
  p.n = g.n;
  p.k = g.k;
  p.batch = g.batch;
  p.alpha = g.alpha;
  p.beta = g.beta;
  return call;
}

swr::GemmCall call_from(const swr_gemm& g) {
  swr::GemmCall call = untyped_call_from(g);
  call.dtype = dtype_of(g.dtype);
  call.output = output_of(g.output);
  return call;
}

/// An enumerator from 0 to `most`.
template <typename Enum>
Enum enum_of(std::int32_t value, std::int32_t most, const char* what) {
  if (value < 0 || value > most) {
    throw swr::Error(swr::ErrorCode::invalid_argument, std::string(what) + " must be 0 to " +
                                                           std::to_string(most) + ", not " +
                                                           std::to_string(value));
  }
  return static_cast<Enum>(value);
}

swr::GemmCall call_from(const swr_gemm& g, const swr_gemm_extras& e) {
  swr::GemmCall call = untyped_call_from(g);
  call.dtype = g.dtype == SWR_E4M3   ? swr::DType::e4m3
               : g.dtype == SWR_E5M2 ? swr::DType::e5m2
                                     : dtype_of(g.dtype);
  call.output = g.output == SWR_E4M3 ? swr::OutputType::fp8 : output_of(g.output);
  call.scaling = enum_of<swr::Scaling>(e.scaling, SWR_BLOCK, "scaling");
  call.accuracy = enum_of<swr::Accuracy>(e.accuracy, SWR_TWO_LEVEL, "accuracy");
  call.activation = enum_of<swr::Activation>(e.activation, SWR_SILU, "activation");
  call.gated = e.gated != 0;
  call.output_scaling = enum_of<swr::Scaling>(e.output_scaling, SWR_BLOCK, "output_scaling");
  call.extras = {.a_scales = e.a_scales,
                 .b_scales = e.b_scales,
                 .a_scale_stride = e.a_scale_stride,
                 .b_scale_stride = e.b_scale_stride,
                 .bias = e.bias,
                 .addend = e.addend,
                 .c_scales = e.c_scales,
                 .c_scale_stride = e.c_scale_stride};
  return call;
}

swr::GemmCall call_from(const swr_grouped_gemm& g) {
  if (g.groups < SWR_OFFSETS || g.groups > SWR_MASKED) {
    throw swr::Error(swr::ErrorCode::invalid_argument,
                     "groups must be a value of swr_groups, not " + std::to_string(g.groups));
  }
  swr::GemmCall call = call_from(g.gemm, g.extras);
  call.grouping = {.form = static_cast<swr::GemmGroups>(g.groups),
                   .expected_rows = g.expected_rows,
                   .skewed = g.skewed != 0};
  return call;
}

void launch_at(swr_runtime* runtime, swr::GemmCall call, const void* a, const void* b, void* c,
               void* stream) {
  call.params.a = a;
  call.params.b = b;
  call.params.c = c;
  runtime->runtime.gemm(call, static_cast<CUstream_st*>(stream));
}

template <typename CProblem, typename CAnswer>
swr_status best_of(const swr_lookup* lookup, const CProblem* problem, const swr_device* device,
                   CAnswer* answer) {
  return guarded([&] {
    require_pointer(lookup, "lookup");
    require_pointer(problem, "problem");
    require_pointer(device, "device");
    require_pointer(answer, "answer");
    *answer = c_answer(lookup->lookup.best(problem_from(*problem), device_from(*device)), *problem);
  });
}

template <typename CProblem, typename CAnswer>
swr_status prepare(swr_runtime* runtime, const CProblem* problem, CAnswer* answer) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(problem, "problem");
    const swr::Answer chosen = runtime->runtime.prepare(problem_from(*problem));
    if (answer != nullptr) {
      *answer = c_answer(chosen, *problem);
    }
  });
}

void set_changed(std::int32_t* changed, bool value) {
  if (changed != nullptr) {
    *changed = value ? 1 : 0;
  }
}

}  // namespace

extern "C" {

int32_t swr_api_version(void) { return SWR_API_VERSION; }

const char* swr_last_error(void) { return last_error().c_str(); }

swr_status swr_present_device(int32_t ordinal, swr_device* device) {
  return guarded([&] {
    require_pointer(device, "device");
    *device = device_to_c(swr::present_device(ordinal));
  });
}

swr_status swr_profiled_device(const char* id, swr_device* device) {
  return guarded([&] {
    require_pointer(id, "id");
    require_pointer(device, "device");
    *device = device_to_c(swr::profiled_device(id));
  });
}

const char* swr_match_text(int32_t match) {
  const bool is_known = match >= SWR_EXACT && match <= SWR_MODELLED;
  return is_known ? to_string(static_cast<swr::MatchLevel>(match)).data() : "";
}

swr_status swr_lookup_open(const char* database, const char* l2_state, swr_lookup** lookup) {
  return guarded([&] {
    require_pointer(lookup, "lookup");
    *lookup =
        std::make_unique<swr_lookup>(path_from(database), lookup_options_from(l2_state)).release();
  });
}

swr_status swr_lookup_best(const swr_lookup* lookup, const swr_problem* problem,
                           const swr_device* device, swr_answer* answer) {
  return best_of(lookup, problem, device, answer);
}

swr_status swr_lookup_best_gemm(const swr_lookup* lookup, const swr_gemm_problem* problem,
                                const swr_device* device, swr_gemm_answer* answer) {
  return best_of(lookup, problem, device, answer);
}

swr_status swr_lookup_refresh(swr_lookup* lookup, int32_t* changed) {
  return guarded([&] {
    require_pointer(lookup, "lookup");
    set_changed(changed, lookup->lookup.refresh());
  });
}

void swr_lookup_close(swr_lookup* lookup) {
  guarded([&] { const std::unique_ptr<swr_lookup> owner(lookup); });
}

swr_status swr_runtime_create(const swr_runtime_options* options, swr_runtime** runtime) {
  return guarded([&] {
    require_pointer(options, "options");
    require_pointer(runtime, "runtime");
    *runtime = std::make_unique<swr_runtime>(options_from(*options)).release();
  });
}

swr_status swr_runtime_attention(swr_runtime* runtime, const swr_attention* attention,
                                 void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(attention, "attention");
    runtime->runtime.attention(call_from(*attention), static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_attention_at(swr_runtime* runtime, const swr_attention* attention,
                                    const void* q, const void* k, const void* v, void* o,
                                    float* lse, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(attention, "attention");
    swr::AttentionCall call = call_from(*attention);
    call.params.q = q;
    call.params.k = k;
    call.params.v = v;
    call.params.o = o;
    call.params.lse = lse;
    runtime->runtime.attention(call, static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_gemm(swr_runtime* runtime, const swr_gemm* gemm, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(gemm, "gemm");
    runtime->runtime.gemm(call_from(*gemm), static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_gemm_at(swr_runtime* runtime, const swr_gemm* gemm, const void* a,
                               const void* b, void* c, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(gemm, "gemm");
    launch_at(runtime, call_from(*gemm), a, b, c, stream);
  });
}

swr_status swr_runtime_grouped_gemm_at(swr_runtime* runtime, const swr_grouped_gemm* gemm,
                                       const void* a, const void* b, void* c,
                                       const int32_t* numbers, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(gemm, "gemm");
    swr::GemmCall call = call_from(*gemm);
    call.params.groups = numbers;
    launch_at(runtime, call, a, b, c, stream);
  });
}

swr_status swr_runtime_fused_gemm(swr_runtime* runtime, const swr_gemm* gemm,
                                  const swr_gemm_extras* extras, void* stream) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(gemm, "gemm");
    require_pointer(extras, "extras");
    runtime->runtime.gemm(call_from(*gemm, *extras), static_cast<CUstream_st*>(stream));
  });
}

swr_status swr_runtime_prepare(swr_runtime* runtime, const swr_problem* problem,
                               swr_answer* answer) {
  return prepare(runtime, problem, answer);
}

swr_status swr_runtime_prepare_gemm(swr_runtime* runtime, const swr_gemm_problem* problem,
                                    swr_gemm_answer* answer) {
  return prepare(runtime, problem, answer);
}

swr_status swr_runtime_note_missed(swr_runtime* runtime, const char* file) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(file, "file");
    runtime->runtime.note_missed(file);
  });
}

swr_status swr_runtime_use_kernels(swr_runtime* runtime, const char* file) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    require_pointer(file, "file");
    runtime->runtime.use_kernels(file);
  });
}

swr_status swr_runtime_refresh(swr_runtime* runtime, int32_t* changed) {
  return guarded([&] {
    require_pointer(runtime, "runtime");
    set_changed(changed, runtime->runtime.refresh());
  });
}

void swr_runtime_destroy(swr_runtime* runtime) {
  guarded([&] { const std::unique_ptr<swr_runtime> owner(runtime); });
}
}
