// SPDX-License-Identifier: MIT
// Measuring on the GPU present and compiling: in supervised processes, or in this one on request.
#pragma once

#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/tune_command.h"
#include "tuner/evaluator.h"
#include <swr/generator.h>

#include <memory>

namespace swr::cli {

/// Throws: Error when nothing can be measured.
std::unique_ptr<Evaluator> make_measuring_evaluator(const TuneSession& session,
                                                    const GpuChoice& gpu,
                                                    const Generator& generator);

/// For commands that compile many kernels: one that kills the compiler kills no more.
GeneratorOptions supervised_generator_options(const Session& session, bool is_isolated = true);

/// Serves measurements to the process that started this one.
int run_measure_worker(const TuneSession& session);

}  // namespace swr::cli
