// SPDX-License-Identifier: MIT
// Recorded spaces in the formats of others: T4 auto-tuning results 1.0, CSV as of the CUTLASS
// profiler, and cache files of Kernel Tuner, which hold every configuration that it measured.
#pragma once

#include "core/json.h"
#include "core/recorded_space.h"
#include <swr/device.h>
#include <swr/problem.h>

#include <filesystem>
#include <iosfwd>

namespace swr {

/// Times are in milliseconds, as Kernel Tuner writes them. The problem, the device and the
/// versions, for which the format has no place, are under the key "swr". Requires: measured
/// results.
Json t4_document(const RecordedSpace& space);

/// The space of such a document, as untrusted input. What the format does not tell apart (launch
/// failures, crashes, throttled results) is read as `runtime`; of the resources the registers come
/// back. Throws: Error{unreadable} naming what is wrong, also for a document that does not say of
/// which problem and device it is.
RecordedSpace read_t4(const Json& document);

/// One header line and one line per result; docs/search.md names the columns. Runtime is in
/// milliseconds, GB/s and GFLOPs are per second of it. Requires: measured results.
void write_cutlass_csv(std::ostream& out, const RecordedSpace& space);

// Cache files of Kernel Tuner, which hold every configuration that it measured.

/// A document of results: a cache that Kernel Tuner has not closed lacks its end, and where it was
/// killed a part of the last row; both are mended. Throws: as read_json_file().
Json read_results_document(const std::filesystem::path& path);

bool is_kernel_tuner_cache(const Json& document);

/// The same results as T4, for read_t4(). Of what they are no cache says.
/// Throws: Error{invalid_argument} where the parameters are not the kernel's, or a row lacks one.
Json t4_of_cache(const Json& cache, const Problem& problem, const DeviceInfo& device);

}  // namespace swr
