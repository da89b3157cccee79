// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/text.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>

#include <CLI/CLI.hpp>

#include <utility>

namespace swr::cli {
namespace {

constexpr const char* kGroup = "Problem";
constexpr const char* kAttentionGroup = "Problem of --op attention";
constexpr const char* kGemmGroup = "Problem of --op gemm";

/// Whether an option was given, by its name.
using Given = std::pair<const char*, bool>;

std::vector<Given> given_for_attention(const ProblemText& text) {
  return {{"--seq", !text.seq.empty()},
          {"--seq-kv", text.seq_kv.has_value()},
          {"--heads", text.heads.has_value()},
          {"--kv-heads", text.kv_heads.has_value()},
          {"--head-dim", text.head_dim.has_value()},
          {"--causal", text.causal}};
}

std::vector<Given> given_for_gemm(const ProblemText& text) {
  return {{"--m", !text.m.empty()},
          {"--n", text.n.has_value()},
          {"--k", text.k.has_value()},
          {"--layout", text.layout.has_value()},
          {"--output", text.output.has_value()},
          {"--reads-c", text.reads_c}};
}

void require_absent(const std::vector<Given>& options, const char* op, const std::string& asked) {
  for (const auto& [name, is_given] : options) {
    if (is_given) {
      reject(std::string(name) + " belongs to --op " + op + ", not to --op " + asked);
    }
  }
}

void require_present(const std::vector<Given>& options, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!options[i].second) {
      reject(std::string(options[i].first) + " is required");
    }
  }
}

std::vector<Problem> attention_problems(const ProblemText& text) {
  const AttentionProblem usual;
  const auto given = given_for_attention(text);
  require_absent(given_for_gemm(text), "gemm", text.op);
  require_present(given, 1);
  std::vector<Problem> all;
  for (const std::string& part : split(text.seq, ',')) {
    const int seq = whole_number(part, "--seq");
    const int heads = text.heads.value_or(usual.heads_q);
    all.emplace_back(AttentionProblem{.batch = text.batch,
                                      .heads_q = heads,
                                      .heads_kv = text.kv_heads.value_or(heads),
                                      .seq_q = seq,
                                      .seq_kv = text.seq_kv.value_or(seq),
                                      .head_dim = text.head_dim.value_or(usual.head_dim),
                                      .dtype = parse_dtype(text.dtype),
                                      .causal = text.causal,
                                      .alignment_bytes = text.alignment});
  }
  return all;
}

std::vector<Problem> gemm_problems(const ProblemText& text) {
  constexpr std::size_t kSizes = 3;
  const auto given = given_for_gemm(text);
  require_absent(given_for_attention(text), "attention", text.op);
  require_present(given, kSizes);
  std::vector<Problem> all;
  for (const std::string& part : split(text.m, ',')) {
    all.emplace_back(GemmProblem{.m = whole_number(part, "--m"),
                                 .n = *text.n,
                                 .k = *text.k,
                                 .batch = text.batch,
                                 .dtype = parse_dtype(text.dtype),
                                 .output = parse_output_type(text.output.value_or(text.dtype)),
                                 .layout = parse_gemm_layout(text.layout.value_or("nt")),
                                 .reads_c = text.reads_c,
                                 .alignment_bytes = text.alignment});
  }
  return all;
}

}  // namespace

void add_kernel_options(CLI::App& app, ProblemText& problem) {
  app.add_option("--op", problem.op, "Operation: attention or gemm")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--dtype", problem.dtype, "Type of the inputs, and of O: fp16 or bf16")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--alignment", problem.alignment,
                 "Bytes that divide every address and stride: 2, 4, 8 or 16")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--head-dim", problem.head_dim,
                 "Elements per head; a multiple of 16 up to 256 [64]")
      ->group(kAttentionGroup);
  app.add_flag("--causal", problem.causal, "Mask the future, aligned to the last row and key")
      ->group(kAttentionGroup);
  app.add_option("--layout", problem.layout,
                 "nt: A [m, k] and B [n, k]; nn: B [k, n]; tn: A [k, m] and B [k, n] [nt]")
      ->group(kGemmGroup);
  app.add_option("--output", problem.output, "Type of C: fp16, bf16 or fp32 [that of --dtype]")
      ->group(kGemmGroup);
  app.add_flag("--reads-c", problem.reads_c, "C is added to (beta is not 0)")->group(kGemmGroup);
}

void add_problem_options(CLI::App& app, ProblemText& problem, const char* list_help) {
  app.add_option("--batch", problem.batch, "Batch size")->capture_default_str()->group(kGroup);
  app.add_option("--seq", problem.seq, std::string("Sequence length; ") + list_help)
      ->type_name("N[,N]")
      ->group(kAttentionGroup);
  app.add_option("--seq-kv", problem.seq_kv, "Length of K and V [same as --seq]")
      ->group(kAttentionGroup);
  app.add_option("--heads", problem.heads, "Query heads [1]")->group(kAttentionGroup);
  app.add_option("--kv-heads", problem.kv_heads, "Key and value heads [same as --heads]")
      ->group(kAttentionGroup);
  app.add_option("--m", problem.m, std::string("Rows of C; ") + list_help)
      ->type_name("N[,N]")
      ->group(kGemmGroup);
  app.add_option("--n", problem.n, "Columns of C")->group(kGemmGroup);
  app.add_option("--k", problem.k, "Length of the sums")->group(kGemmGroup);
  add_kernel_options(app, problem);
}

std::vector<Problem> problems(const ProblemText& text) {
  std::vector<Problem> all =
      parse_op(text.op) == gemm_operation() ? gemm_problems(text) : attention_problems(text);
  for (const Problem& problem : all) {
    validate(problem);
  }
  return all;
}

}  // namespace swr::cli
