// SPDX-License-Identifier: MIT
// plan: shapes or a model's configuration as a list of problems for tune --work.
#include "tuner/cli/commands.h"
#include "tuner/cli/options/text.h"
#include "tuner/cli/output_file.h"
#include "tuner/distribute/work_list.h"
#include <swr/error.h>

#include <charconv>
#include <ostream>

namespace swr::cli {
namespace {

std::vector<int> lengths(const std::string& text, const std::string& option) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size()) {
      throw Error(ErrorCode::invalid_argument, option + " takes whole numbers, not '" + part + "'");
    }
    numbers.push_back(value);
  }
  return numbers;
}

std::vector<Problem> planned(const PlanOptions& plan) {
  if (plan.shapes) {
    return read_shapes(*plan.shapes);
  }
  ModelWork work{.lengths = lengths(plan.seq, "--seq"),
                 .batches = lengths(plan.batch, "--batch"),
                 .causal = plan.causal,
                 .dtype = std::nullopt,
                 .training = plan.training};
  if (!plan.dtype.empty()) {
    work.dtype = parse_dtype(plan.dtype);
  }
  return read_model(*plan.model, work);
}

}  // namespace

int run_plan(const Session& session) {
  const auto problems = without_repeats(planned(session.options.plan));
  if (!session.options.out) {
    write_work_list(session.out, problems);
    return kExitSuccess;
  }
  OutputFile file(session, *session.options.out);
  write_work_list(file.text(), problems);
  file.finish();
  session.out << "wrote " << problems.size()
              << (problems.size() == 1 ? " problem to " : " problems to ")
              << session.options.out->string() << "\n";
  return kExitSuccess;
}

}  // namespace swr::cli
