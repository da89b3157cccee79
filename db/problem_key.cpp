// SPDX-License-Identifier: MIT
#include "db/problem_key.h"

#include "core/mixed_hash.h"
#include <swr/attention_problem.h>
#include <swr/gemm_problem.h>

namespace swr {
namespace {

/// Packs small numbers into one, the first lowest.
class Packer {
 public:
  template <typename Value>
  Packer& add(Value value, unsigned bits) {
    packed_ |= static_cast<std::uint64_t>(value) << shift_;
    shift_ += bits;
    return *this;
  }
  std::uint64_t packed() const { return packed_; }

 private:
  std::uint64_t packed_ = 0;
  unsigned shift_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(std::uint64_t packed) : packed_(packed) {}

  template <typename Value>
  Value take(unsigned bits) {
    const auto value = static_cast<Value>(packed_ & ((1ULL << bits) - 1));
    packed_ >>= bits;
    return value;
  }

 private:
  std::uint64_t packed_;
};

constexpr unsigned kOpBits = 8;
constexpr unsigned kEnumBits = 8;
constexpr unsigned kAlignmentBits = 8;
constexpr unsigned kHeadDimBits = 16;

ProblemKey key_of(const AttentionProblem& problem) {
  return {Packer()
              .add(attention_operation(), kOpBits)
              .add(problem.dtype, kEnumBits)
              .add(problem.alignment_bytes, kAlignmentBits)
              .add(problem.head_dim, kHeadDimBits)
              .add(problem.causal, 1)
              .packed(),
          {problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q, problem.seq_kv}};
}

ProblemKey key_of(const GemmProblem& problem) {
  return {Packer()
              .add(gemm_operation(), kOpBits)
              .add(problem.dtype, kEnumBits)
              .add(problem.alignment_bytes, kAlignmentBits)
              .add(problem.output, kEnumBits)
              .add(problem.layout, kEnumBits)
              .add(problem.reads_c, 1)
              .packed(),
          {problem.batch, problem.m, problem.n, problem.k, 1}};
}

AttentionProblem attention_of(Unpacker kind, const ProblemKey& key) {
  AttentionProblem problem;
  problem.dtype = kind.take<DType>(kEnumBits);
  problem.alignment_bytes = kind.take<int>(kAlignmentBits);
  problem.head_dim = kind.take<int>(kHeadDimBits);
  problem.causal = kind.take<bool>(1);
  problem.batch = key.sizes[0];
  problem.heads_q = key.sizes[1];
  problem.heads_kv = key.sizes[2];
  problem.seq_q = key.sizes[3];
  problem.seq_kv = key.sizes[4];
  return problem;
}

GemmProblem gemm_of(Unpacker kind, const ProblemKey& key) {
  GemmProblem problem;
  problem.dtype = kind.take<DType>(kEnumBits);
  problem.alignment_bytes = kind.take<int>(kAlignmentBits);
  problem.output = kind.take<OutputType>(kEnumBits);
  problem.layout = kind.take<GemmLayout>(kEnumBits);
  problem.reads_c = kind.take<bool>(1);
  problem.batch = key.sizes[0];
  problem.m = key.sizes[1];
  problem.n = key.sizes[2];
  problem.k = key.sizes[3];
  return problem;
}

std::uint64_t pair(int high, int low) {
  return static_cast<std::uint64_t>(high) << 32U | static_cast<std::uint32_t>(low);
}

}  // namespace

ProblemKey problem_key(const Problem& problem) {
  return std::visit([](const auto& one) { return key_of(one); }, problem);
}

Problem problem_of(const ProblemKey& key) {
  Unpacker kind(key.kind);
  if (kind.take<Op>(kOpBits) == gemm_operation()) {
    return gemm_of(kind, key);
  }
  return attention_of(kind, key);
}

ShapePoint shape_point(const ProblemKey& key) {
  const auto& [a, b, c, d, e] = key.sizes;
  return shape_point(a, b, c, d, e);
}

std::size_t hash_of(const ProblemKey& key) {
  const auto& [a, b, c, d, e] = key.sizes;
  return mixed(mixed(mixed(pair(a, b), pair(c, d)), static_cast<std::uint64_t>(e)), key.kind);
}

}  // namespace swr
