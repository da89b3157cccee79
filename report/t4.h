// SPDX-License-Identifier: MIT
// The auto-tuning community's format for results, T4 version 1.0.0, which Kernel Tuner and its
// tools for comparing searches read.
#pragma once

#include "core/json.h"
#include "core/recorded_space.h"

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

}  // namespace swr
