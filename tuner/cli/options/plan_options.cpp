// SPDX-License-Identifier: MIT
#include "tuner/cli/options/subcommands.h"

#include <CLI/CLI.hpp>

namespace swr::cli {

void add_plan(CLI::App& program, Options& options) {
  CLI::App& app = *program.add_subcommand(
      "plan", "Write a list of problems for tune --work, from shapes or from a model");
  app.footer(
      "Examples:\n"
      "  swr-tune plan --shapes shapes.txt --out work.json\n"
      "  swr-tune plan --model config.json --seq 1024,8192 --batch 1,8 --causal --out work.json");
  PlanOptions& plan = options.plan;
  CLI::Option_group& source = *app.add_option_group("Source");
  source
      .add_option("--shapes", plan.shapes,
                  "Text with a shape per line (seq=4096 heads=32 kv-heads=8 causal), or JSON")
      ->type_name("FILE");
  CLI::Option* const model =
      source.add_option("--model", plan.model, "A model's config.json: heads and head_dim")
          ->type_name("FILE");
  source.require_option(1);
  constexpr const char* kGroup = "With --model";
  CLI::Option* const seq =
      app.add_option("--seq", plan.seq, "Lengths")->type_name("N[,N]")->group(kGroup)->needs(model);
  model->needs(seq);
  app.add_option("--batch", plan.batch, "Batch sizes")
      ->capture_default_str()
      ->type_name("N[,N]")
      ->group(kGroup)
      ->needs(model);
  app.add_option("--dtype", plan.dtype, "fp16 or bf16 [the model's]")->group(kGroup)->needs(model);
  app.add_flag("--causal", plan.causal, "With the causal mask")->group(kGroup)->needs(model);
  app.add_flag("--training", plan.training, "Backward passes too")->group(kGroup)->needs(model);
  app.add_option("--out", options.out, "Write to a file instead of stdout")
      ->type_name("FILE")
      ->group("Files");
}

}  // namespace swr::cli
