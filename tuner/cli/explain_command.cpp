// SPDX-License-Identifier: MIT
// swr-tune explain: all that is known of one variant, measured or predicted, and what it says.
#include "core/operation.h"
#include "report/explain/explanation.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/explain_subject.h"
#include "tuner/cli/gpu_choice.h"

#include <memory>

namespace swr::cli {

int run_explain(const Session& session) {
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const GpuProfile profile = gpu.profile ? *gpu.profile : profile_for_device(gpu.device);
  Json document = Json::object();
  document["explanations"] = Json::array();
  for (const Problem& problem : problems(session.options.problem)) {
    const auto explained =
        problem.operation().explain({problem, profile, choose_subject(session, problem, profile)});
    if (session.options.json) {
      document["explanations"].push_back(explained->json());
    } else {
      explained->print(session.out);
    }
  }
  if (session.options.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
