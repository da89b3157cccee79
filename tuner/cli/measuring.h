// SPDX-License-Identifier: MIT
// Measuring on the GPU present and compiling: in supervised processes, or in this one on request.
#pragma once

#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/evaluator.h"
#include <swr/generator.h>

#include <memory>

namespace swr::cli {

/// Throws: Error when nothing can be measured.
std::unique_ptr<Evaluator> make_measuring_evaluator(const Session& session, const GpuChoice& gpu,
                                                    const Generator& generator);

/// For commands that compile many kernels: one that kills the compiler kills no more.
GeneratorOptions supervised_generator_options(const Session& session);

}  // namespace swr::cli
