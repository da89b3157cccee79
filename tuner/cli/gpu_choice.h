// SPDX-License-Identifier: MIT
// From --gpu to a device: one that is present is measured, another one is predicted.
#pragma once

#include "driver/devices.h"
#include "model/profile/gpu_profile.h"
#include "tuner/cli/tune_command.h"
#include "tuner/evaluator.h"
#include <swr/device.h>
#include <swr/generator.h>
#include <swr/result.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr::cli {

struct GpuChoice {
  DeviceInfo device;
  /// The profile to predict with; absent when the device is present.
  std::optional<GpuProfile> profile;
  /// Ordinal of the device when it is present.
  int ordinal = 0;
  /// PCI bus id, where the device is one of several.
  std::string card;

  Provenance provenance() const { return profile ? Provenance::predicted : Provenance::measured; }
};

/// `gpu` is auto, the id of a built-in profile, or the path of a profile.
/// Throws: Error{no_driver} for auto without a GPU; Error{invalid_argument} for an unknown id;
/// Error{unreadable} for a profile file.
GpuChoice choose_gpu(const std::string& gpu);

/// The GPUs that --gpus names: all, or numbers of those present, separated by commas.
/// Throws: Error{no_driver} without a GPU; Error{invalid_argument} for a number that is none or
/// stands twice, and, naming the difference, for GPUs that are not equal.
std::vector<GpuChoice> choose_gpus(const std::string& gpus);

/// A GPU of this machine as the driver describes it.
struct PresentGpu {
  int number = 0;
  DeviceInfo device;
  DeviceDetails details;
};

/// Throws: Error{invalid_argument} naming the first difference that matters for speed.
void require_equal(std::span<const PresentGpu> gpus);

/// The numbers of the GPUs that --gpus names, of so many. Throws: as choose_gpus().
std::vector<int> parse_gpus(const std::string& gpus, int present);

/// CUDA_VISIBLE_DEVICES for a process that is to see one GPU alone, the one that has this number
/// where the variable is `visible`.
std::string visible_alone(const std::optional<std::string>& visible, int number);

// Measuring on the GPU present and compiling: in supervised processes, or in this one on request.

/// Throws: Error when nothing can be measured.
std::unique_ptr<Evaluator> make_measuring_evaluator(const TuneSession& session,
                                                    const GpuChoice& gpu,
                                                    const Generator& generator);

/// For commands that compile many kernels: one that kills the compiler kills no more.
GeneratorOptions supervised_generator_options(const Session& session, bool is_isolated = true);

/// Serves measurements to the process that started this one.
int run_measure_worker(const TuneSession& session);

}  // namespace swr::cli
