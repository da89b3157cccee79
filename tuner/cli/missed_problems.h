// SPDX-License-Identifier: MIT
// The questions that programs noted beside the database: tune --missed.
#pragma once

#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/tune_command.h"
#include <swr/problem.h>

#include <vector>

namespace swr::cli {

/// The GPU that the session asks for, the first of several.
GpuChoice first_gpu(const TuneSession& session);

/// Those that nothing stored answers yet, most asked first, on the GPU that the session asks for.
/// Throws: as read_missed_questions() and choose_gpu().
std::vector<Problem> missed_problems(const TuneSession& session);

/// Takes those out of the file that something stored answers now.
void forget_answered(const TuneSession& session, const GpuChoice& gpu);

}  // namespace swr::cli
