// SPDX-License-Identifier: MIT
// Times of cuBLASLt, as experiments/gemm/gemm_peers measured them in a process of its own: swr
// links no library of kernels.
#pragma once

#include "experiments/studies/study.h"
#include <swr/gemm_problem.h>

#include <filesystem>
#include <optional>

namespace swr {

/// Median times of the library's first choice. Reads the file of `gemm_peers --csv`.
/// Throws: Error{unreadable} naming the file, the line and what is wrong with it.
PeerTimes read_peer_times(const std::filesystem::path& path);

/// The time for a problem of the benchmark's kind: bf16 in and out, nt, one product.
std::optional<double> peer_time_us(const PeerTimes& peers, const GemmProblem& problem);

}  // namespace swr
