// SPDX-License-Identifier: MIT
// The sum of two vectors, annotated as for kernel_launcher.
#pragma kernel tune(threads_per_block = 32, 64, 128, 256, 512, 1024)
#pragma kernel tune(items_per_thread = 1, 2, 3, 4)
#pragma kernel tune(tiling_strategy = 0, 1, 2)
#pragma kernel set(items_per_block = items_per_thread * threads_per_block)
#pragma kernel restriction(items_per_block <= 1024)
#pragma kernel problem_size(n)
#pragma kernel block_size(threads_per_block)
#pragma kernel grid_divisor(items_per_block)
#pragma kernel buffers(c[n], a[n], b[n])
#pragma kernel tuning_key("vector_add_" + T)
#pragma swr size(n = 10000000)
#pragma swr types(T = float)
template <typename T, int items_per_block, int items_per_thread, int tiling_strategy>
__global__ void vector_add_annotated(int n, T* c, const T* a, const T* b) {
  constexpr int threads = items_per_block / items_per_thread;
  static_assert(tiling_strategy >= 0 && tiling_strategy <= 2, "there are three strategies");
  for (int k = 0; k < items_per_thread; ++k) {
    // Neighbours of a thread, of a block, or of the whole grid.
    const int item = tiling_strategy == 0   ? threadIdx.x * items_per_thread + k
                     : tiling_strategy == 1 ? threadIdx.x + k * threads
                                            : 0;
    const int i = tiling_strategy == 2 ? (k * gridDim.x + blockIdx.x) * threads + threadIdx.x
                                       : blockIdx.x * items_per_block + item;
    if (i < n) {
      c[i] = a[i] + b[i];
    }
  }
}
