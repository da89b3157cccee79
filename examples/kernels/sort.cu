// SPDX-License-Identifier: MIT
// Radix sort of keys with values, four bits a pass. A pass sorts blocks of equal length by their
// four bits, counts the digits of each block, scans the counts, and moves every element to its
// place. Blocks have SORT_BLOCK_SIZE * SORT_VECTOR elements, which are SCAN_BLOCK_SIZE *
// SCAN_VECTOR.
constexpr int block_elements = SORT_BLOCK_SIZE * SORT_VECTOR;
constexpr int digits = 16;

// The sum of `value` over the threads before this one; `total` is that of all. Every thread of the
// CTA calls it.
template <int threads>
__device__ unsigned scan_threads(unsigned value, unsigned& total) {
  __shared__ unsigned warp_sums[threads / 32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  unsigned sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned before = __shfl_up_sync(0xffffffffu, sum, step);
    sum += lane >= step ? before : 0;
  }
  __syncthreads();
  if (lane == 31) {
    warp_sums[warp] = sum;
  }
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (int i = 0; i < threads / 32; ++i) {
    before += i < warp ? warp_sums[i] : 0;
    total += warp_sums[i];
  }
  return before + sum - value;
}

// Each CTA sorts its block by four bits: four times by one bit, zeros first, each in their order.
extern "C" __global__ void __launch_bounds__(SORT_BLOCK_SIZE)
    sort_blocks(const unsigned* keys, const unsigned* values, unsigned* sorted_keys,
                unsigned* sorted_values, int shift) {
  __shared__ unsigned shared_keys[block_elements];
  __shared__ unsigned shared_values[block_elements];
  const int first = blockIdx.x * block_elements;
  for (int i = threadIdx.x; i < block_elements; i += SORT_BLOCK_SIZE) {
    shared_keys[i] = keys[first + i];
    shared_values[i] = values[first + i];
  }
  __syncthreads();
  unsigned own_keys[SORT_VECTOR];
  unsigned own_values[SORT_VECTOR];
  for (int bit = shift; bit < shift + 4; ++bit) {
    unsigned zeros = 0;
#pragma unroll
    for (int i = 0; i < SORT_VECTOR; ++i) {
      own_keys[i] = shared_keys[threadIdx.x * SORT_VECTOR + i];
      own_values[i] = shared_values[threadIdx.x * SORT_VECTOR + i];
      zeros += (own_keys[i] >> bit & 1) == 0;
    }
    unsigned all_zeros = 0;
    unsigned zero = scan_threads<SORT_BLOCK_SIZE>(zeros, all_zeros);
    unsigned one = all_zeros + threadIdx.x * SORT_VECTOR - zero;
#pragma unroll
    for (int i = 0; i < SORT_VECTOR; ++i) {
      const unsigned place = (own_keys[i] >> bit & 1) == 0 ? zero++ : one++;
      shared_keys[place] = own_keys[i];
      shared_values[place] = own_values[i];
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < block_elements; i += SORT_BLOCK_SIZE) {
    sorted_keys[first + i] = shared_keys[i];
    sorted_values[first + i] = shared_values[i];
  }
}

// Where each digit begins in a sorted block, and how many there are: counts of one digit lie side
// by side, block after block.
extern "C" __global__ void __launch_bounds__(SCAN_BLOCK_SIZE)
    find_offsets(const unsigned* sorted_keys, unsigned* counts, unsigned* offsets, int blocks,
                 int shift) {
  __shared__ unsigned begins[digits + 1];
  const unsigned* const keys = sorted_keys + blockIdx.x * block_elements;
  for (int i = threadIdx.x; i <= digits; i += SCAN_BLOCK_SIZE) {
    begins[i] = block_elements;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SCAN_VECTOR; ++k) {
    const int i = threadIdx.x * SCAN_VECTOR + k;
    const unsigned digit = keys[i] >> shift & (digits - 1);
    const int before = i == 0 ? -1 : static_cast<int>(keys[i - 1] >> shift & (digits - 1));
    // Digits that do not occur begin where the next one does.
    for (int empty = before + 1; empty <= static_cast<int>(digit); ++empty) {
      begins[empty] = i;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < digits; i += SCAN_BLOCK_SIZE) {
    counts[i * blocks + blockIdx.x] = begins[i + 1] - begins[i];
    offsets[blockIdx.x * digits + i] = begins[i];
  }
}

// Each CTA replaces its part of the counts by the sums before them, and leaves its total; with one
// CTA the part is all of them.
extern "C" __global__ void __launch_bounds__(SCAN_BLOCK_SIZE)
    scan(unsigned* counts, unsigned* totals, int count) {
  constexpr int step = SCAN_BLOCK_SIZE * SCAN_VECTOR;
  const int end = gridDim.x == 1 ? count : min(count, static_cast<int>(blockIdx.x + 1) * step);
  unsigned carried = 0;
  for (int first = blockIdx.x * step; first < end; first += step) {
    unsigned own[SCAN_VECTOR];
    unsigned sum = 0;
#pragma unroll
    for (int k = 0; k < SCAN_VECTOR; ++k) {
      const int i = first + threadIdx.x * SCAN_VECTOR + k;
      own[k] = i < count ? counts[i] : 0;
      sum += own[k];
    }
    unsigned total = 0;
    unsigned before = carried + scan_threads<SCAN_BLOCK_SIZE>(sum, total);
#pragma unroll
    for (int k = 0; k < SCAN_VECTOR; ++k) {
      const int i = first + threadIdx.x * SCAN_VECTOR + k;
      if (i < count) {
        counts[i] = before;
      }
      before += own[k];
    }
    carried += total;
  }
  if (gridDim.x > 1 && threadIdx.x == 0) {
    totals[blockIdx.x] = carried;
  }
}

extern "C" __global__ void __launch_bounds__(SCAN_BLOCK_SIZE)
    add_totals(unsigned* counts, const unsigned* totals, int count) {
  const unsigned total = totals[blockIdx.x];
#pragma unroll
  for (int k = 0; k < SCAN_VECTOR; ++k) {
    const int i = (blockIdx.x * SCAN_VECTOR + k) * SCAN_BLOCK_SIZE + threadIdx.x;
    if (i < count) {
      counts[i] += total;
    }
  }
}

extern "C" __global__ void __launch_bounds__(SCAN_BLOCK_SIZE)
    reorder(const unsigned* sorted_keys, const unsigned* sorted_values, unsigned* keys,
            unsigned* values, const unsigned* counts, const unsigned* offsets, int blocks,
            int shift) {
  __shared__ unsigned begins[digits];
  __shared__ unsigned places[digits];
  for (int i = threadIdx.x; i < digits; i += SCAN_BLOCK_SIZE) {
    begins[i] = offsets[blockIdx.x * digits + i];
    places[i] = counts[i * blocks + blockIdx.x];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SCAN_VECTOR; ++k) {
    const int i = k * SCAN_BLOCK_SIZE + threadIdx.x;
    const unsigned key = sorted_keys[blockIdx.x * block_elements + i];
    const unsigned digit = key >> shift & (digits - 1);
    const unsigned place = places[digit] + i - begins[digit];
    keys[place] = key;
    values[place] = sorted_values[blockIdx.x * block_elements + i];
  }
}
