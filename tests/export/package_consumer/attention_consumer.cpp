// SPDX-License-Identifier: MIT
// A program outside of swr that links an exported package. Reads problems from standard input, one
// per line, runs each, and prints the kernel that served it or the error.
#include "driver.h"

#include <cstdint>
#include <iostream>
#include <my_kernels/attention.h>

namespace {

my_kernels::Call call_of(std::istream& line) {
  my_kernels::Call call;
  my_kernels::AttentionParams& p = call.params;
  int dtype = 0;
  line >> p.batch >> p.heads_q >> p.heads_kv >> p.seq_q >> p.seq_kv >> call.head_dim >> dtype >>
      call.causal;
  call.dtype = dtype == 0 ? my_kernels::DType::fp16 : my_kernels::DType::bf16;
  p.q = p.k = p.v = p.o = reinterpret_cast<void*>(std::uintptr_t{4096});
  const long long row = call.head_dim;
  p.q_strides = p.o_strides = {row * p.heads_q * p.seq_q, row * p.seq_q, row};
  p.k_strides = p.v_strides = {row * p.heads_kv * p.seq_kv, row * p.seq_kv, row};
  return call;
}

}  // namespace

int main() {
  make_context_current();
  my_kernels::Attention attention;
  while (std::cin >> std::ws && std::cin.good()) {
    const my_kernels::Call call = call_of(std::cin);
    try {
      const my_kernels::Choice choice = attention.prepare(call);
      attention.run(call, nullptr);
      std::cout << choice.kernel << " " << choice.distance << " overlaps "
                << driver<int()>("fake_last_overlaps")() << "\n";
    } catch (const my_kernels::Error& error) {
      std::cout << "error " << static_cast<int>(error.code()) << " " << error.what() << "\n";
    }
  }
}
