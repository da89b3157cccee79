// SPDX-License-Identifier: MIT
// The rules by which one stored result is nearer or better than another. Pure functions; the
// queries in db/query.cpp apply them.
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <optional>

namespace swr {

/// Root of the summed squared log2 ratios of batch, heads_q, heads_kv, seq_q and seq_kv; 0 when
/// these are equal. Empty when the problems differ in dtype, head_dim, causal or alignment_bytes:
/// those select other kernels, so no length makes up for them.
std::optional<double> shape_distance(const AttentionProblem& a, const AttentionProblem& b);

/// The same measure over SM count, L2 size and memory bandwidth: which of several GPUs of one
/// architecture to learn from.
double device_distance(const DeviceInfo& a, const DeviceInfo& b);

/// Smaller time first; ties go to fewer excess misses (unknown counts as most), fewer registers,
/// then the variant's key. Requires: both of the same provenance.
bool is_better(const AttentionProblem& problem, const VariantResult& a, const VariantResult& b);

}  // namespace swr
