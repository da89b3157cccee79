// SPDX-License-Identifier: MIT
// Leaves the GPU's distribution of CTAs in another state than it found it in: to which SM the CTAs
// of the next launch go depends on how the CTAs of the launches before it ended
// (docs/measuring.md).

namespace swr::reference {
namespace {

/// Up to 8191, different for neighbouring CTAs and seeds (multipliers of MurmurHash3's finaliser).
__device__ unsigned drawn_cycles(unsigned seed, unsigned cta) {
  unsigned bits = (seed + cta * 0x9e3779b9U) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35U;
  return bits >> 19;
}

}  // namespace
}  // namespace swr::reference

/// Each CTA waits for a time of its own; it touches no memory, so that caches stay as they are.
extern "C" __global__ void swr_shake_placement(unsigned seed) {
  const long long started = clock64();
  const long long cycles = swr::reference::drawn_cycles(seed, blockIdx.x);
  while (clock64() - started < cycles) {
  }
}
