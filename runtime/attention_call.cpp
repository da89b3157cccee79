// SPDX-License-Identifier: MIT
#include <swr/error.h>
#include <swr/runtime.h>

#include <algorithm>
#include <cstdint>

namespace swr {
namespace {

/// Collects the address bits in which an access may lie.
class Alignment {
 public:
  void add_pointer(const void* pointer, const char* name) {
    if (pointer == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  std::string("the tensor ") + name +
                      " has no memory; pass the address of its first element");
    }
    bits_ |= reinterpret_cast<std::uintptr_t>(pointer);
  }

  /// A stride that no step takes does not matter.
  void add_strides(const TensorStrides& strides, int batch, int heads, int seq, DType dtype) {
    const auto add = [&](long long stride, int extent) {
      if (extent > 1) {
        bits_ |=
            static_cast<std::uintptr_t>(stride) * static_cast<std::uintptr_t>(element_bytes(dtype));
      }
    };
    add(strides.batch, batch);
    add(strides.head, heads);
    add(strides.seq, seq);
  }

  /// The largest power of two, at most 16, that divides all.
  int bytes() const {
    constexpr std::uintptr_t kLargest = 16;
    const std::uintptr_t all = bits_ | kLargest;
    return static_cast<int>(all & ~(all - 1));
  }

 private:
  std::uintptr_t bits_ = 0;
};

}  // namespace

AttentionProblem problem_of(const AttentionCall& call) {
  const AttentionParams& p = call.params;
  AttentionProblem problem{.batch = p.batch,
                           .heads_q = p.heads_q,
                           .heads_kv = p.heads_kv,
                           .seq_q = p.seq_q,
                           .seq_kv = p.seq_kv,
                           .head_dim = call.head_dim,
                           .dtype = call.dtype,
                           .causal = call.causal};
  Alignment alignment;
  alignment.add_pointer(p.q, "Q");
  alignment.add_pointer(p.k, "K");
  alignment.add_pointer(p.v, "V");
  alignment.add_pointer(p.o, "O");
  alignment.add_strides(p.q_strides, p.batch, p.heads_q, p.seq_q, call.dtype);
  alignment.add_strides(p.k_strides, p.batch, p.heads_kv, p.seq_kv, call.dtype);
  alignment.add_strides(p.v_strides, p.batch, p.heads_kv, p.seq_kv, call.dtype);
  alignment.add_strides(p.o_strides, p.batch, p.heads_q, p.seq_q, call.dtype);
  problem.alignment_bytes = alignment.bytes();
  if (problem.alignment_bytes < element_bytes(call.dtype)) {
    throw Error(ErrorCode::invalid_argument,
                "the address of a tensor is odd; elements of 2 bytes lie at even addresses");
  }
  validate(problem);
  return problem;
}

}  // namespace swr
