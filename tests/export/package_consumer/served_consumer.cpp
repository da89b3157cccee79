// SPDX-License-Identifier: MIT
// A program outside of swr that links an exported package with a user's kernel. Reads sizes from
// standard input, runs each on the fake driver, which calls the functions below, and prints the
// kernel that served it and what the launch did, or the error.
#include "driver.h"

#include <iostream>
#include <my_kernels/served.h>
#include <numeric>
#include <vector>

namespace {

unsigned last_grid = 0;
unsigned last_block = 0;
int finished = 0;
float offsets[2] = {0.0F, 0.0F};

}  // namespace

extern "C" {

struct Shape {
  unsigned grid[3];
  unsigned block[3];
  unsigned dynamic_smem_bytes;
};
struct Variable {
  void* memory;
  std::size_t bytes;
};
extern Variable fake_variable_offsets;
void fake_kernel_serve(Shape shape, void** arguments);
void fake_kernel_finish(Shape shape, void** arguments);

Variable fake_variable_offsets{static_cast<void*>(offsets), sizeof offsets};

void fake_kernel_serve(Shape shape, void** arguments) {
  auto* const y = *static_cast<float**>(arguments[0]);
  const auto* const x = *static_cast<const float**>(arguments[1]);
  const float factor = *static_cast<float*>(arguments[2]);
  for (int i = 0; i < 4; ++i) {
    y[i] = factor * x[i] + offsets[0];
  }
  last_grid = shape.grid[0];
  last_block = shape.block[0];
}
void fake_kernel_finish(Shape /*shape*/, void** /*arguments*/) { ++finished; }
}

int main() {
  make_context_current();
  my_kernels::Served served;
  const std::vector<float> x{1.0F, 2.0F, 3.0F, 4.0F};
  const std::vector<float> constants{1.25F, 0.0F};
  std::vector<float> y(4);
  for (int n = 0; std::cin >> n;) {
    try {
      finished = 0;
      const my_kernels::Choice choice = served.prepare({n});
      served.run({n}, y.data(), x.data(), 2.0F, n, constants.data(), nullptr);
      std::cout << choice.kernel << " grid " << last_grid << " block " << last_block << " sum "
                << std::accumulate(y.begin(), y.end(), 0.0F) << " finished " << finished << "\n";
    } catch (const my_kernels::Error& error) {
      std::cout << "error " << static_cast<int>(error.code()) << " " << error.what() << "\n";
    }
  }
}
