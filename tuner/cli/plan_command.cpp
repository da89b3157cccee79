// SPDX-License-Identifier: MIT
// plan: shapes or a model's configuration as a list of problems for tune --work.
#include "tuner/cli/commands.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include "tuner/distribute/work_list.h"

#include <ostream>

namespace swr::cli {
namespace {

struct PlanArguments {
  std::optional<std::filesystem::path> shapes;
  std::optional<std::filesystem::path> model;
  std::string seq;
  std::string batch = "1";
  std::string dtype;
  std::string op;
  bool causal = false;
  bool training = false;
  std::optional<std::filesystem::path> out;
};

std::vector<Problem> planned(const Session& session, const PlanArguments& plan) {
  if (plan.shapes) {
    return read_shapes(*plan.shapes);
  }
  if (!plan.model) {
    reject("plan needs --shapes or --model");
  }
  std::vector<std::string> notes;
  ModelWork work{.lengths = whole_numbers(plan.seq, "--seq"),
                 .batches = whole_numbers(plan.batch, "--batch"),
                 .causal = plan.causal,
                 .dtype = std::nullopt,
                 .training = plan.training,
                 .notes = &notes};
  if (!plan.dtype.empty()) {
    work.dtype = parse_dtype(plan.dtype);
  }
  auto problems = read_model(*plan.model, work);
  for (const std::string& note : notes) {
    session.err << "swr-tune: note: " << plan.model->string() << ": " << note << "\n";
  }
  if (!plan.op.empty()) {
    const Operation& only = find_operation(plan.op);
    std::erase_if(problems, [&](const Problem& problem) { return &problem.operation() != &only; });
  }
  return problems;
}

int run_plan(const Session& session, const PlanArguments& plan) {
  const auto problems = without_repeats(planned(session, plan));
  if (!plan.out) {
    write_work_list(session.out, problems);
    return kExitSuccess;
  }
  OutputFile file(session, *plan.out);
  write_work_list(file.text(), problems);
  file.finish();
  session.out << "wrote " << problems.size()
              << (problems.size() == 1 ? " problem to " : " problems to ") << plan.out->string()
              << "\n";
  return kExitSuccess;
}

}  // namespace

void add_plan(CommandLine& line) {
  auto [options, plan] = line.add<PlanArguments>(
      {.name = "plan",
       .meaning = "Write a list of problems for tune --work, from shapes or from a model",
       .footer = "Examples:\n"
                 "  swr-tune plan --shapes shapes.txt --out work.json\n"
                 "  swr-tune plan --model config.json --seq 1024,8192 --batch 1,8 --out work.json",
       .group = "Tune"},
      run_plan);
  CLI::Option* const shapes =
      options.add("--shapes FILE", plan.shapes,
                  "Text with a shape per line (seq=4096 heads=32 kv-heads=8 causal), or JSON",
                  {.group = "Source, one of", .role = FileRole::input});
  CLI::Option* const model =
      options.add("--model FILE", plan.model, "A model's config.json, for its shapes",
                  {.group = "Source, one of", .role = FileRole::input, .excludes = shapes});
  const std::string group = "With --model";
  CLI::Option* const seq =
      options.add("--seq N[,N]", plan.seq, "Lengths", {.group = group, .needs = model});
  OptionList::need(model, seq);
  options.add("--batch N[,N]", plan.batch, "Batch sizes",
              {.group = group, .shows_usual = true, .needs = model});
  options.add("--dtype", plan.dtype, "fp16 or bf16 [the model's]",
              {.group = group, .needs = model});
  options.add("--causal", plan.causal, "With the causal mask, which decoders have anyway",
              {.group = group, .needs = model});
  options.add("--op", plan.op, "Problems of one operation alone [all]",
              {.group = group, .needs = model});
  options.add("--training", plan.training, "Backward passes too", {.group = group, .needs = model});
  options.add("--out FILE", plan.out, "Write to a file instead of stdout",
              {.group = "Files", .role = FileRole::output});
}

}  // namespace swr::cli
