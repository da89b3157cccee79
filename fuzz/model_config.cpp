// SPDX-License-Identifier: MIT
// config.json as published with models, of which a list of problems is made.
#include "fuzz/harness.h"
#include "tuner/distribute/work_list.h"

namespace swr::fuzz {

void run_one(std::string_view input) {
  const auto path = write_input("config.json", input);
  const ModelWork work{.lengths = {1, 4096}, .batches = {1, 64}, .causal = true, .dtype = {}};
  for (const Problem& problem : read_model(path, work)) {
    validate(problem);
  }
}

}  // namespace swr::fuzz
