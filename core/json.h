// SPDX-License-Identifier: MIT
// JSON of the vocabulary types, with the same names as the database's columns. Reading treats the
// text as untrusted: every field must be there, of its type and within its bounds.
#pragma once

#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <nlohmann/json.hpp>

#include <string>

namespace swr {

struct RecordedOrigin;

/// Keeps the order in which keys were added.
using Json = nlohmann::ordered_json;

// Found by Json's conversions: `Json json = problem;` and `json.get<Problem>()`.
// Reading throws: Error{invalid_argument} naming the field.
/// With the operation under "op".
void to_json(Json& json, const Problem& problem);
/// The axes of its family.
void to_json(Json& json, const Variant& variant);
void to_json(Json& json, const DeviceInfo& device);
void to_json(Json& json, const KernelResources& resources);
void to_json(Json& json, const LaunchGeometry& geometry);
void to_json(Json& json, const Counters& counters);
// Of the following two only what the GPU reports.
void to_json(Json& json, const AccessCounters& accesses);
void to_json(Json& json, const GpuCondition& condition);
void to_json(Json& json, const Measurement& measurement);
void to_json(Json& json, const Prediction& prediction);
/// The operation is under "op", the outcome under "measured" or "predicted".
void to_json(Json& json, const VariantResult& result);
void to_json(Json& json, const RecordedOrigin& origin);

/// Without "op", as before there were several operations, it is of the first.
void from_json(const Json& json, Problem& problem);
/// Every axis must be there, and nothing else.
Variant variant_from_json(const Operation& operation, const Json& json);
void from_json(const Json& json, DeviceInfo& device);
void from_json(const Json& json, KernelResources& resources);
void from_json(const Json& json, LaunchGeometry& geometry);
void from_json(const Json& json, Counters& counters);
// Of the following two what the GPU did not say is absent.
void from_json(const Json& json, AccessCounters& accesses);
void from_json(const Json& json, GpuCondition& condition);
/// A relative error that is no number, as of an output that is none, is read as infinite.
void from_json(const Json& json, Measurement& measurement);
void from_json(const Json& json, Prediction& prediction);
/// A result that is ok must have a time. Without "op" it is of the first operation.
void from_json(const Json& json, VariantResult& result);
void from_json(const Json& json, RecordedOrigin& origin);

/// Single fields of an object. Throws: Error{invalid_argument} naming the field.
const Json& json_field(const Json& json, std::string_view name);
/// As printable(): whoever wrote the text may have meant it for a terminal.
std::string json_text(const Json& json, std::string_view name);
long long json_integer(const Json& json, std::string_view name, long long low, long long high);
/// A finite number, at least 0.
double json_number(const Json& json, std::string_view name);
bool json_flag(const Json& json, std::string_view name);

/// Indented text that ends in a newline. Bytes that are no UTF-8, as compiler logs and device names
/// may hold, are replaced.
std::string json_document(const Json& json);

}  // namespace swr
