// SPDX-License-Identifier: MIT
// What L2 and memory deliver, and how long a load takes. Loads bypass L1.

namespace swr::calibration {

/// Bytes a CTA reads between two looks at where to go on.
constexpr long long kTileBytes = 16 * 1024;
constexpr int kTileVectors = static_cast<int>(kTileBytes / sizeof(uint4));

__device__ unsigned mixed(uint4 value) { return value.x ^ value.y ^ value.z ^ value.w; }

/// Keeps the compiler from dropping the loads: the buffers hold zeros.
__device__ void keep(unsigned value, unsigned* sink) {
  if (value == 0x9e3779b9U) {
    *sink = value;
  }
}

__device__ unsigned read_tile(const uint4* tile) {
  unsigned bits = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kTileVectors; i += static_cast<int>(blockDim.x)) {
    bits ^= mixed(__ldcg(tile + i));
  }
  return bits;
}

}  // namespace swr::calibration

/// Every CTA reads the whole buffer `rounds` times, forwards, or to and fro with `sawtooth`. CTAs
/// walk together, or `skew_tiles` apart from each other.
extern "C" __global__ void swr_sweep(const uint4* data, int tiles, int rounds, int sawtooth,
                                     int skew_tiles, unsigned* sink) {
  using namespace swr::calibration;
  unsigned bits = 0;
  const int offset = static_cast<int>(static_cast<long long>(blockIdx.x) * skew_tiles % tiles);
  for (int round = 0; round < rounds; ++round) {
    const bool backward = sawtooth != 0 && (round & 1) != 0;
    for (int step = 0; step < tiles; ++step) {
      const int forward = (step + offset) % tiles;
      const int tile = backward ? tiles - 1 - forward : forward;
      bits ^= read_tile(data + static_cast<long long>(tile) * kTileVectors);
    }
  }
  keep(bits, sink);
}

/// All CTAs together read the buffer once.
extern "C" __global__ void swr_stream(const uint4* data, int tiles, unsigned* sink) {
  using namespace swr::calibration;
  unsigned bits = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    bits ^= read_tile(data + static_cast<long long>(tile) * kTileVectors);
  }
  keep(bits, sink);
}

/// Links `lines` (a power of two) 128-byte lines into one cycle in scattered order: each begins
/// with the address of the next.
extern "C" __global__ void swr_link(unsigned long long* data, unsigned lines) {
  constexpr unsigned kWordsPerLine = 16;
  for (unsigned line = blockIdx.x * blockDim.x + threadIdx.x; line < lines;
       line += gridDim.x * blockDim.x) {
    // A full-period generator (Hull and Dobell 1962): odd increment, multiplier 1 modulo 4.
    const unsigned next = (line * 1664525U + 1013904223U) & (lines - 1);
    data[static_cast<unsigned long long>(line) * kWordsPerLine] =
        reinterpret_cast<unsigned long long>(data +
                                             static_cast<unsigned long long>(next) * kWordsPerLine);
  }
}

/// One thread follows the links; `clocks` gets the clocks of all steps.
extern "C" __global__ void swr_chase(const unsigned long long* data, int steps, long long* clocks,
                                     unsigned* sink) {
  const unsigned long long* place = data;
  const long long started = clock64();
  for (int step = 0; step < steps; ++step) {
    place = reinterpret_cast<const unsigned long long*>(__ldcg(place));
  }
  *clocks = clock64() - started;
  swr::calibration::keep(place == nullptr ? 0x9e3779b9U : 0U, sink);
}

/// One CTA per SM: clocks of an atomic on each of `lines` 128-byte lines that lie `stride` lines
/// apart, the mean of a few, as [CTA][line]; atomics are done where the line has its home in
/// L2. `sms` gets the SM of each CTA. CTAs begin at different lines, so that they do not meet.
extern "C" __global__ void swr_atomic_latency(unsigned* data, int lines, int stride, int* clocks,
                                              unsigned* sms) {
  constexpr int kWordsPerLine = 32;
  constexpr int kRepeats = 8;
  if (threadIdx.x != 0) {
    return;
  }
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sms[blockIdx.x]));
  for (int i = 0; i < lines; ++i) {
    const int line = (i + static_cast<int>(blockIdx.x)) % lines;
    unsigned* const place = data + static_cast<long long>(line) * stride * kWordsPerLine;
    unsigned found = 0;
    const long long started = clock64();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      found = atomicAdd(place + found, 0U);  // Zero, and the next one waits for it.
    }
    if (found == 0) {
      clocks[static_cast<long long>(blockIdx.x) * lines + line] =
          static_cast<int>((clock64() - started) / kRepeats);
    }
  }
}
