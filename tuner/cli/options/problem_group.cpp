// SPDX-License-Identifier: MIT
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/text.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_kernel_options(CLI::App& app, ProblemText& problem) {
  constexpr const char* kGroup = "Problem";
  app.add_option("--head-dim", problem.head_dim, "Elements per head; a multiple of 16 up to 256")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--dtype", problem.dtype, "Type of Q, K, V and O: fp16 or bf16")
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--causal", problem.causal, "Mask the future, aligned to the last row and key")
      ->group(kGroup);
  app.add_option("--alignment", problem.alignment,
                 "Bytes that divide every address and stride: 2, 4, 8 or 16")
      ->capture_default_str()
      ->group(kGroup);
}

CLI::Option* add_problem_options(CLI::App& app, ProblemText& problem, const char* seq_help) {
  constexpr const char* kGroup = "Problem";
  app.add_option("--op", problem.op, "Operation; attention is the only one")
      ->capture_default_str()
      ->group(kGroup);
  CLI::Option* const seq =
      app.add_option("--seq", problem.seq, seq_help)->type_name("N[,N]")->group(kGroup);
  app.add_option("--seq-kv", problem.seq_kv, "Length of K and V [same as --seq]")->group(kGroup);
  app.add_option("--batch", problem.batch, "Batch size")->capture_default_str()->group(kGroup);
  app.add_option("--heads", problem.heads, "Query heads")->capture_default_str()->group(kGroup);
  app.add_option("--kv-heads", problem.kv_heads, "Key and value heads [same as --heads]")
      ->group(kGroup);
  add_kernel_options(app, problem);
  return seq;
}

std::vector<AttentionProblem> problems(const ProblemText& text) {
  if (text.op != "attention") {
    reject("--op '" + text.op + "' is unknown; the only operation is attention");
  }
  std::vector<AttentionProblem> all;
  for (const std::string& part : split(text.seq, ',')) {
    const int seq = whole_number(part, "--seq");
    all.push_back({.batch = text.batch,
                   .heads_q = text.heads,
                   .heads_kv = text.kv_heads.value_or(text.heads),
                   .seq_q = seq,
                   .seq_kv = text.seq_kv.value_or(seq),
                   .head_dim = text.head_dim,
                   .dtype = parse_dtype(text.dtype),
                   .causal = text.causal,
                   .alignment_bytes = text.alignment});
    validate(all.back());
  }
  return all;
}

}  // namespace swr::cli
