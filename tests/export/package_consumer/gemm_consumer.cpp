// SPDX-License-Identifier: MIT
// A program outside of swr that links an exported package with GEMM. Reads products from standard
// input, one per line, runs each, and prints the kernel that served it and the launch, or the
// error.
#include "driver.h"

#include <cstdint>
#include <iostream>
#include <my_kernels/gemm.h>
#include <string>
#include <vector>

namespace {

my_kernels::GemmCall call_of(std::istream& line) {
  my_kernels::GemmCall call;
  my_kernels::GemmParams& p = call.params;
  int dtype = 0;
  int output = 0;
  int layout = 0;
  line >> p.batch >> p.m >> p.n >> p.k >> dtype >> output >> layout >> p.beta;
  call.dtype = static_cast<my_kernels::DType>(dtype);
  call.output = static_cast<my_kernels::OutputType>(output);
  call.layout = static_cast<my_kernels::GemmLayout>(layout);
  p.a = p.b = p.c = reinterpret_cast<void*>(std::uintptr_t{4096});
  // Rows are padded to 16 bytes, so that every size has the same alignment.
  const auto row = [](int elements) { return (elements + 7LL) / 8 * 8; };
  p.a_strides.row = row(call.layout == my_kernels::GemmLayout::tn ? p.m : p.k);
  p.b_strides.row = row(call.layout == my_kernels::GemmLayout::nt ? p.k : p.n);
  p.c_strides.row = row(p.n);
  p.a_strides.batch = p.b_strides.batch = p.c_strides.batch = 1LL << 40;
  return call;
}

/// "own" memory of the package, a "workspace" of what it asks for, or a "small" one.
void run(my_kernels::Gemm& gemm, const my_kernels::GemmCall& call, const std::string& memory) {
  const std::size_t bytes = gemm.workspace_bytes(call);
  if (memory == "own") {
    gemm.run(call, nullptr);
    std::cout << driver<const char*()>("fake_last_gemm")() << " bytes " << bytes << "\n";
    return;
  }
  std::vector<unsigned> words(bytes / 4 + 4, 7U);
  gemm.run(call, {words.data(), memory == "small" ? bytes - 1 : bytes}, nullptr);
  const std::string launch = driver<const char*()>("fake_last_gemm")();
  std::size_t cleared = 0;
  for (const unsigned word : words) {
    cleared += word == 0 ? 1 : 0;
  }
  std::cout << "cleared " << cleared << " of " << bytes / 4 << ", kept " << words[bytes / 4]
            << "\n";
}

}  // namespace

int main() {
  make_context_current();
  my_kernels::Gemm gemm;
  while (std::cin >> std::ws && std::cin.good()) {
    const my_kernels::GemmCall call = call_of(std::cin);
    std::string memory;
    std::cin >> memory;
    try {
      const my_kernels::Choice choice = gemm.prepare(call);
      std::cout << choice.kernel << " " << choice.distance << " ";
      run(gemm, call, memory);
    } catch (const my_kernels::Error& error) {
      std::cout << "error " << static_cast<int>(error.code()) << " " << error.what() << "\n";
    }
  }
}
