// SPDX-License-Identifier: MIT
// --against: times of what others call for a problem, by a Python that has PyTorch.
#pragma once

#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/tune_command.h"
#include "tuner/run/tuner.h"
#include <swr/device.h>
#include <swr/problem.h>

#include <span>
#include <string>

namespace swr::cli {

/// Whose calls, and where they are looked for.
struct PeerChoice {
  std::string peer;    ///< torch or cublaslt.
  std::string python;  ///< Of the helper process.
  int ordinal = 0;     ///< Of the GPU.
  L2State l2_state = L2State::warm;
};

/// Of --against on a GPU that is present.
PeerChoice peer_choice(const TuneSession& session, const GpuChoice& gpu);

/// Throws: Error{not_found} saying what is missing, or which problem has no such call.
void require_peer(const PeerChoice& choice, std::span<const Problem> problems);

/// Throws: as require_peer().
PeerTime time_peer(const PeerChoice& choice, const Problem& problem, const DeviceInfo& device);

}  // namespace swr::cli
