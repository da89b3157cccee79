// SPDX-License-Identifier: MIT
// A program outside of swr that links an exported package with softmax. Reads rows, columns and
// strides from standard input, one problem per line, runs each, and prints the kernel that served
// it and the launch, or the error.
#include "driver.h"

#include <cstdint>
#include <iostream>
#include <my_kernels/softmax.h>

int main() {
  make_context_current();
  my_kernels::Softmax softmax;
  my_kernels::SoftmaxCall call;
  call.x = call.y = reinterpret_cast<void*>(std::uintptr_t{4096});
  while (std::cin >> call.rows >> call.columns >> call.x_stride) {
    call.y_stride = call.x_stride;
    try {
      const my_kernels::Choice choice = softmax.prepare(call);
      softmax.run(call, nullptr);
      std::cout << choice.kernel << " " << driver<const char*()>("fake_last_softmax")() << "\n";
    } catch (const my_kernels::Error& error) {
      std::cout << "error " << static_cast<int>(error.code()) << " " << error.what() << "\n";
    }
  }
}
