// SPDX-License-Identifier: MIT
// What tuner and measuring process say to each other, one document each way: a request names what
// the evaluator shall do, the answer holds what it returned, or the Error it threw. Notes between
// the two say which variant a reference trial runs (operations/verdict.h). A further
// request is a writer of it, a reader of its answer and an entry in the table of answers.
#pragma once

#include "core/json.h"
#include "tuner/evaluator.h"
#include <swr/error.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

// JSON documents on a byte stream: each in the binary form of JSON (CBOR, RFC 8949), which keeps
// kernels, exact numbers and texts of any encoding, after its length.

/// The document's length in bytes, in 4 bytes with the most significant first, and the document.
std::string encode_frame(const Json& document);

/// Puts frames together from the pieces in which they arrive.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }

  /// The next document; empty until all of it has arrived.
  /// Throws: Error{unreadable} when the bytes are no frame.
  std::optional<Json> next();

 private:
  std::string bytes_;
};

Json prepare_request(const Problem& problem);
Json evaluate_request(const Problem& problem, const Variant& variant, const CompiledKernel& kernel);
Json count_request(const Problem& problem, std::span<const Contender> contenders);
Json count_accesses_request(const Problem& problem, std::span<const Contender> contenders);
Json power_request(const Problem& problem, std::span<const Contender> contenders);
Json race_request(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options);

/// What the measuring process says of itself when it is ready.
Json greeting(const DeviceInfo& device);
Json error_answer(const Error& error);

/// WorkerProcess::note() is then the variant, or null.
Json trial_note(const Variant* variant);
/// The request, with the variants of such notes left out of reference trials.
Json without_trials_of(Json request, const std::vector<Json>& noted);

/// Has the evaluator do what is asked.
/// Throws: Error from the evaluator; Error{invalid_argument} when the request cannot be read.
Json answer(const Json& request, Evaluator& evaluator);

/// The error that an answer holds.
std::optional<Error> find_error(const Json& answer);

// Throw: Error{invalid_argument} for an answer to something else.
DeviceInfo read_greeting(const Json& answer);
VariantResult read_result(const Json& answer, const Variant& asked);
std::vector<CounterReading> read_readings(const Json& answer, std::size_t contenders);
std::vector<AccessReading> read_access_readings(const Json& answer, std::size_t contenders);
std::vector<PowerReading> read_power(const Json& answer, std::size_t readings);
RaceResult read_race(const Json& answer, std::size_t contenders);

}  // namespace swr
