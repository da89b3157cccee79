// SPDX-License-Identifier: MIT
// The instructions of templates/common/ptx.cuh that the portable families use, on the CPU, after
// the figures of the PTX ISA manual.
#pragma once

#include "tests/emulation/simt.h"
#include "tests/support/float16.h"
#include <swr/axes.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace swr::ptx {

inline void griddepcontrol_wait() { emulation::griddepcontrol_wait(); }
inline void griddepcontrol_launch_dependents() {
  if (!emulation::cta->launch_before_ended &&
      emulation::cta->launch.fault != emulation::Fault::launch_not_awaited) {
    emulation::fail("the launch after may start while the one before still runs");
  }
}

inline void prefetch_global_l2(const void* global) {
  emulation::cta->launch.prefetch(global, !emulation::cta->launch_before_ended);
}

inline void move(const emulation::Copy& copy) {
  std::byte* const target = emulation::shared(copy.shared, static_cast<std::size_t>(copy.bytes));
  std::memset(target, 0, static_cast<std::size_t>(copy.bytes));
  if (copy.source_bytes > 0) {
    std::memcpy(target, copy.global, static_cast<std::size_t>(copy.source_bytes));
  }
}

template <int Bytes>
void cp_async(unsigned shared, const void* global, int source_bytes) {
  if (source_bytes < 0 || source_bytes > Bytes ||
      (source_bytes > 0 && reinterpret_cast<std::uintptr_t>(global) % Bytes != 0)) {
    emulation::fail("cp.async with a misaligned source or a wrong size");
  }
  const emulation::Copy copy{shared, global, Bytes, source_bytes};
  emulation::cta->traffic.add(threadIdx.x, emulation::Access::async_copy, shared, Bytes);
  if (emulation::cta->launch.copies == emulation::CopyTime::early) {
    move(copy);
  } else {
    emulation::thread().pending_copies.back().push_back(copy);
  }
}

template <int Bytes>
void cp_async_zfill(unsigned shared, const void* global, bool valid) {
  cp_async<Bytes>(shared, global, valid ? Bytes : 0);
}

inline void cp_async_commit_group() {
  emulation::cta->traffic.start_next_epoch(threadIdx.x);
  emulation::thread().pending_copies.emplace_back();
}

template <int Pending>
void cp_async_wait_group() {
  if (emulation::cta->launch.fault == emulation::Fault::copies_not_awaited) {
    return;
  }
  auto& groups = emulation::thread().pending_copies;
  while (groups.size() > Pending + 1) {
    for (const emulation::Copy& copy : groups.front()) {
      move(copy);
    }
    groups.erase(groups.begin());
  }
}

inline unsigned atom_add_acq_rel(unsigned* target, unsigned value) {
  return atomicAdd(target, value);
}

template <typename Value>
void st_shared(unsigned shared, Value value) {
  emulation::cta->traffic.add(threadIdx.x, emulation::Access::store, shared, sizeof value);
  std::memcpy(emulation::shared(shared, sizeof value), &value, sizeof value);
}
template <typename Value>
Value load_from_shared(unsigned shared) {
  emulation::cta->traffic.add(threadIdx.x, emulation::Access::load, shared, sizeof(Value));
  Value value;
  std::memcpy(&value, emulation::shared(shared, sizeof value), sizeof value);
  return value;
}
inline uint4 ld_global_v4_b32_if(bool wanted, const void* address) {
  return wanted ? *static_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
}
inline uint4 ld_shared_v4_b32(unsigned shared) { return load_from_shared<uint4>(shared); }
inline float4 ld_shared_v4_f32(unsigned shared) { return load_from_shared<float4>(shared); }
inline unsigned ld_shared_b32(unsigned shared) { return load_from_shared<unsigned>(shared); }
inline uint2 ld_shared_v2_b32(unsigned shared) { return load_from_shared<uint2>(shared); }
inline unsigned short ld_shared_b16(unsigned shared) {
  return load_from_shared<unsigned short>(shared);
}
inline void st_shared_b16(unsigned shared, unsigned short value) { st_shared(shared, value); }

/// Element `column` of the 8-element row at a shared address.
inline unsigned row_element(unsigned address, unsigned column) {
  std::uint16_t element;
  std::memcpy(&element, emulation::shared(address, 16) + 2 * column, sizeof element);
  return element;
}

struct Fragment {
  unsigned words[4];
};

/// ldmatrix: `element(rows, lane, i)` is word i of a lane, from the addresses of the 32 rows.
template <typename Element>
void ldmatrix_with(unsigned (&fragment)[4], unsigned shared, const Element& element) {
  const auto load = [&](const auto& rows, auto& results) {
    std::vector<emulation::LaneAddress> lanes;
    for (unsigned lane = 0; lane < 32; ++lane) {
      lanes.push_back({lane, rows[lane]});
      for (unsigned i = 0; i < 4; ++i) {
        results[lane].words[i] = element(rows, lane, i);
      }
    }
    emulation::cta->traffic.add(emulation::Access::ldmatrix, lanes, 16);
  };
  const auto loaded = emulation::collective<Fragment>(shared, load);
  std::memcpy(fragment, loaded.words, sizeof fragment);
}

inline void ldmatrix_x4(unsigned (&fragment)[4], unsigned shared) {
  ldmatrix_with(fragment, shared, [](const auto& rows, unsigned lane, unsigned i) {
    const unsigned row = rows[8 * i + lane / 4];
    return row_element(row, lane % 4 * 2) | row_element(row, lane % 4 * 2 + 1) << 16;
  });
}

inline void ldmatrix_x4_trans(unsigned (&fragment)[4], unsigned shared) {
  ldmatrix_with(fragment, shared, [](const auto& rows, unsigned lane, unsigned i) {
    return row_element(rows[8 * i + lane % 4 * 2], lane / 4) |
           row_element(rows[8 * i + lane % 4 * 2 + 1], lane / 4) << 16;
  });
}

inline float cvt_f32_f16(unsigned short bits) {
  return static_cast<float>(value_of(bits, DType::fp16));
}

template <DType Type>
float decode(unsigned bits) {
  return static_cast<float>(value_of(bits, Type));
}
template <DType Type>
unsigned encode(float value) {
  return bits_of(value, Type);
}

template <DType Type>
unsigned cvt_rn_x2(float low, float high) {
  return encode<Type>(low) | encode<Type>(high) << 16;
}

struct Operands {
  unsigned a[4];
  unsigned b[2];
};
struct Sums {
  float c[4];
};

/// mma.sync m16n8k16.
template <DType Type>
void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const auto multiply = [](const auto& lanes, auto& products) {
    float left[16][16];
    float right[16][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned in_row = lane % 4 * 2 + i % 2;
        const unsigned a_bits = lanes[lane].a[i / 2] >> (16 * (i % 2)) & 0xffffU;
        left[lane / 4 + 8 * (i / 2 % 2)][in_row + 8 * (i / 4)] = decode<Type>(a_bits);
        if (i < 4) {
          const unsigned b_bits = lanes[lane].b[i / 2] >> (16 * (i % 2)) & 0xffffU;
          right[in_row + 8 * (i / 2)][lane / 4] = decode<Type>(b_bits);
        }
      }
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 4; ++i) {
        float sum = 0.0F;
        for (unsigned k = 0; k < 16; ++k) {
          sum += left[lane / 4 + 8 * (i / 2)][k] * right[k][lane % 4 * 2 + i % 2];
        }
        products[lane].c[i] = sum;
      }
    }
  };
  const Sums sums =
      emulation::collective<Sums>(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, multiply);
  for (unsigned i = 0; i < 4; ++i) {
    c[i] += sums.c[i];
  }
}

/// FP8 by its definition: e5m2 is the upper half of an fp16.
inline float decode_fp8(unsigned bits, DType type) {
  if (type == DType::e5m2) {
    return cvt_f32_f16(static_cast<unsigned short>(bits << 8));
  }
  const int exponent = static_cast<int>(bits >> 3 & 15U);
  const int fraction = static_cast<int>(bits & 7U);
  const float magnitude = (bits & 0x7fU) == 0x7fU ? std::nanf("")
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(fraction + 8), exponent - 10);
  return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

/// The nearest e4m3, ties to the even pattern; too large a value becomes 448.
inline unsigned encode_e4m3(float value) {
  const unsigned sign = std::signbit(value) ? 0x80U : 0U;
  if (std::isnan(value)) {
    return 0x7fU;
  }
  unsigned best = 0;
  for (unsigned bits = 1; bits < 0x7fU; ++bits) {
    const float off = std::fabs(decode_fp8(bits, DType::e4m3) - std::fabs(value));
    const float best_off = std::fabs(decode_fp8(best, DType::e4m3) - std::fabs(value));
    best = off < best_off || (off == best_off && bits % 2 == 0) ? bits : best;
  }
  return sign | best;
}

inline unsigned short cvt_rn_satfinite_e4m3x2(float low, float high) {
  return static_cast<unsigned short>(encode_e4m3(low) | encode_e4m3(high) << 8);
}

/// mma.sync m16n8k32 of FP8, m16n8k16 of the other types. Byte 4 r + i of a lane's operand is
/// column 4 (lane % 4) + i of the half of 16 that register r belongs to.
template <DType Type>
void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (!is_fp8(Type)) {
    mma_m16n8k16<Type>(c, a, b0, b1);
    return;
  }
  const auto multiply = [](const auto& lanes, auto& products) {
    float left[16][32];
    float right[32][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 16; ++i) {
        const unsigned column = lane % 4 * 4 + i % 4;
        left[lane / 4 + 8 * (i / 4 % 2)][column + 16 * (i / 8)] =
            decode_fp8(lanes[lane].a[i / 4] >> (8 * (i % 4)) & 0xffU, Type);
        if (i < 8) {
          right[column + 16 * (i / 4)][lane / 4] =
              decode_fp8(lanes[lane].b[i / 4] >> (8 * (i % 4)) & 0xffU, Type);
        }
      }
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 4; ++i) {
        float sum = 0.0F;
        for (unsigned k = 0; k < 32; ++k) {
          sum += left[lane / 4 + 8 * (i / 2)][k] * right[k][lane % 4 * 2 + i % 2];
        }
        products[lane].c[i] = sum;
      }
    }
  };
  const Sums sums =
      emulation::collective<Sums>(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, multiply);
  for (unsigned i = 0; i < 4; ++i) {
    c[i] += sums.c[i];
  }
}

/// Off by as much as the manual allows, in the direction that depends on the last bits.
inline float tanh_approx(float x) {
  const float y = std::tanh(x);
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return y * (1.0F + ((bits & 1U) != 0 ? 0x1p-12F : -0x1p-12F));
}
inline float max_nan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::nanf("") : std::max(a, b);
}

inline int opaque(int value) { return value; }

inline int redux_sync_or(int value) {
  return emulation::collective<int>(value, [](const auto& values, auto& results) {
    for (const int other : values) {
      if (other != values[0]) {
        emulation::fail("lanes differ in a value said to be uniform");
      }
    }
    results = values;
  });
}

inline float ex2_approx(float x) { return std::exp2(x); }

}  // namespace swr::ptx
