// SPDX-License-Identifier: MIT
// Tuned spaces as a small text file: every variant of a problem on a device with its outcome, one
// line each. Searches are judged and the model is checked against such files, without a GPU.
// docs/recorded_space.md describes the format.
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// What the results came from.
struct RecordedOrigin {
  std::string swr_version;
  std::string templates_digest;
  /// The same where an overlay replaced built-in templates; else empty.
  std::string overlay_digest;
  std::string nvrtc_version;
  std::string driver_version;
  std::string l2_state;  ///< "warm" or "cold"; empty for predictions.
};

struct RecordedSpace {
  Problem problem;
  DeviceInfo device;
  RecordedOrigin origin;
  /// All of one provenance. Without samples, relative error, detail, digest and, of the resources,
  /// all but the registers; a prediction keeps its time alone.
  std::vector<VariantResult> results;

  /// The fastest successful time in microseconds; 0 when nothing succeeded.
  double best_us() const;
};

/// The extension of such files.
inline constexpr std::string_view kRecordedSpacesExtension = ".spaces";

/// Writes the spaces in their order, with times in whole nanoseconds.
/// Requires: in each space at least one result, and all of one provenance.
void write_recorded_spaces(std::ostream& out, std::span<const RecordedSpace> spaces);

/// Reads the text of a file. Throws: Error{invalid_argument} naming the line and what is wrong with
/// it.
std::vector<RecordedSpace> parse_recorded_spaces(std::string_view text);

/// Reads a file as untrusted input.
/// Throws: Error{not_found}; Error{unreadable} naming the file, the line and what is wrong with it.
std::vector<RecordedSpace> read_recorded_spaces(const std::filesystem::path& path);

/// A file name for the space, without extension: the problem's and the device's. A cold L2 and an
/// overlay of templates (by the first digits of its digest) where there is one.
std::string recorded_space_name(const Problem& problem, const DeviceInfo& device,
                                const RecordedOrigin& origin = {});

}  // namespace swr
