// SPDX-License-Identifier: MIT
// Cache files of Kernel Tuner, which hold every configuration that it measured.
#pragma once

#include "core/json.h"
#include <swr/device.h>
#include <swr/problem.h>

#include <filesystem>

namespace swr {

/// A document of results: a cache that Kernel Tuner has not closed lacks its end, and where it was
/// killed a part of the last row; both are mended. Throws: as read_json_file().
Json read_results_document(const std::filesystem::path& path);

bool is_kernel_tuner_cache(const Json& document);

/// The same results as T4, for read_t4(). Of what they are no cache says.
/// Throws: Error{invalid_argument} where the parameters are not the kernel's, or a row lacks one.
Json t4_of_cache(const Json& cache, const Problem& problem, const DeviceInfo& device);

}  // namespace swr
