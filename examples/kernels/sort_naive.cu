// SPDX-License-Identifier: MIT
// Sorts keys below 1024 by counting: a thread for each key finds all elements that have it.
extern "C" __global__ void count_keys(const unsigned* keys, unsigned* counts, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    atomicAdd(&counts[keys[i]], 1);
  }
}

extern "C" __global__ void take_in_order(const unsigned* keys, const unsigned* values,
                                         const unsigned* counts, unsigned* keys_out,
                                         unsigned* values_out, int n) {
  const unsigned key = blockIdx.x * 32 + threadIdx.x;
  unsigned place = 0;
  for (unsigned smaller = 0; smaller < key; ++smaller) {
    place += counts[smaller];
  }
  for (int i = 0; i < n; ++i) {
    if (keys[i] == key) {
      keys_out[place] = key;
      values_out[place] = values[i];
      ++place;
    }
  }
}
