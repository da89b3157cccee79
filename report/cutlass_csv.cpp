// SPDX-License-Identifier: MIT
#include "report/cutlass_csv.h"

#include "core/number_text.h"
#include "core/operation.h"

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace swr {
namespace {

constexpr double kUsPerMs = 1000.0;
constexpr double kGigaPerUs = 1e3;  ///< Units per microsecond are millions per second.

std::string_view disposition(ResultState state) {
  switch (state) {
    case ResultState::ok:
      return "passed";
    case ResultState::correctness:
      return "incorrect";
    case ResultState::compile:
    case ResultState::constraint:
      return "not_run";
    case ResultState::launch:
    case ResultState::runtime:
    case ResultState::timeout:
    case ResultState::crash:
    case ResultState::throttled:
      return "failed";
  }
  return "failed";
}

/// Bytes that any schedule moves: inputs and output once each.
double least_bytes(const Problem& problem) {
  const auto bytes = compulsory_bytes(problem);
  return static_cast<double>(bytes.read + bytes.write);
}

void write_rates(std::ostream& out, const Problem& problem, const VariantResult& result) {
  const double bytes = least_bytes(problem);
  const double flops = flop_count(problem);
  out << general_text(bytes) << ',' << general_text(flops) << ',' << general_text(flops / bytes)
      << ',';
  if (result.state != ResultState::ok) {
    out << ",,";
    return;
  }
  const double time_us = result.time_us();
  out << general_text(time_us / kUsPerMs) << ',' << general_text(bytes / time_us / kGigaPerUs)
      << ',' << general_text(flops / time_us / kGigaPerUs);
}

}  // namespace

void write_cutlass_csv(std::ostream& out, const RecordedSpace& space) {
  const Operation& op = space.problem.operation();
  out << "Problem,Provider,OperationKind,Operation,Disposition,Status";
  for (const Field& field : fields(op)) {
    out << ',' << field.name;
  }
  for (const Axis& axis : axes(op)) {
    out << ',' << axis.name;
  }
  out << ",Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs\n";
  for (const VariantResult& result : space.results) {
    // All variants solve one problem, as the operations that the profiler compares for a size do.
    out << "1,swr," << op.name() << ",swr_" << op.name() << '_'
        << to_string(family_of(result.variant)) << ',' << disposition(result.state) << ','
        << to_string(result.state);
    for (const Field& field : fields(op)) {
      out << ',' << field_text(space.problem, field);
    }
    for (const Axis& axis : axes(op)) {
      out << ',' << to_string(axis.get(result.variant));
    }
    out << ',';
    write_rates(out, space.problem, result);
    out << '\n';
  }
}

}  // namespace swr
