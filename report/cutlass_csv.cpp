// SPDX-License-Identifier: MIT
#include "report/cutlass_csv.h"

#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>

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

constexpr const char* columns_of(const AttentionProblem&) {
  return "batch,heads_q,heads_kv,seq_q,seq_kv,head_dim,dtype,causal";
}
constexpr const char* columns_of(const GemmProblem&) {
  return "batch,m,n,k,dtype,layout,output,reads_c";
}

void write_sizes(std::ostream& out, const AttentionProblem& problem) {
  out << problem.batch << ',' << problem.heads_q << ',' << problem.heads_kv << ',' << problem.seq_q
      << ',' << problem.seq_kv << ',' << problem.head_dim << ',' << to_string(problem.dtype) << ','
      << (problem.causal ? 1 : 0);
}
void write_sizes(std::ostream& out, const GemmProblem& problem) {
  out << problem.batch << ',' << problem.m << ',' << problem.n << ',' << problem.k << ','
      << to_string(problem.dtype) << ',' << to_string(problem.layout) << ','
      << to_string(problem.output) << ',' << (problem.reads_c ? 1 : 0);
}

void write_rates(std::ostream& out, const Problem& problem, const VariantResult& result) {
  const double bytes = least_bytes(problem);
  const double flops = flop_count(problem);
  out << bytes << ',' << flops << ',' << flops / bytes << ',';
  if (result.state != ResultState::ok) {
    out << ",,";
    return;
  }
  const double time_us = result.time_us();
  out << time_us / kUsPerMs << ',' << bytes / time_us / kGigaPerUs << ','
      << flops / time_us / kGigaPerUs;
}

}  // namespace

void write_cutlass_csv(std::ostream& out, const RecordedSpace& space) {
  const Op op = space.problem.operation();
  out << "Problem,Provider,OperationKind,Operation,Disposition,Status,"
      << std::visit([](const auto& problem) { return columns_of(problem); }, space.problem);
  for (const Axis& axis : axes(op)) {
    out << ',' << axis.name;
  }
  out << ",Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs\n";
  for (const VariantResult& result : space.results) {
    // All variants solve one problem, as the operations that the profiler compares for a size do.
    out << "1,swr," << to_string(op) << ",swr_" << to_string(op) << '_'
        << to_string(family_of(result.variant)) << ',' << disposition(result.state) << ','
        << to_string(result.state) << ',';
    std::visit([&](const auto& problem) { write_sizes(out, problem); }, space.problem);
    for (const Axis& axis : axes(op)) {
      out << ',' << to_string(axis.get(result.variant));
    }
    out << ',';
    write_rates(out, space.problem, result);
    out << '\n';
  }
}

}  // namespace swr
