// SPDX-License-Identifier: MIT
#include "runtime/recent_tensor_maps.h"

#include "core/mixed_hash.h"
#include "tuner/driver/cuda_driver.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace swr {
namespace {

constexpr std::size_t kMostDimensions = 5;  ///< Of a tensor map.

/// All that a map depends on.
struct MapArguments {
  CUcontext context = nullptr;
  void* address = nullptr;
  std::array<cuuint64_t, kMostDimensions> sizes{};
  std::array<cuuint64_t, kMostDimensions - 1> strides_bytes{};
  std::array<cuuint32_t, kMostDimensions> box_sizes{};
  std::array<cuuint32_t, kMostDimensions> element_strides{};
  cuuint32_t rank = 0;
  CUtensorMapDataType type{};
  CUtensorMapInterleave interleave{};
  CUtensorMapSwizzle swizzle{};
  CUtensorMapL2promotion promotion{};
  CUtensorMapFloatOOBfill fill{};

  bool operator==(const MapArguments&) const = default;
};

struct RecentMap {
  MapArguments arguments;  ///< Rank 0: no map is here.
  CUtensorMap map{};
};

constexpr std::size_t kMaps = 512;

thread_local CUcontext context_of_maps = nullptr;
thread_local std::array<RecentMap, kMaps> recent_maps;

/// Tensors differ by address; the same memory is seen with other lengths and boxes.
RecentMap& place_of(const MapArguments& arguments) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(arguments.address);
  for (const std::uint64_t word : {arguments.sizes[0], arguments.sizes[1], arguments.sizes[2],
                                   std::uint64_t{arguments.box_sizes[1]}}) {
    hash = mixed(hash, word);
  }
  return recent_maps[hash % kMaps];
}

}  // namespace

void use_recent_tensor_maps_of(CUcontext context) { context_of_maps = context; }

CUresult encode_recent_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* sizes,
                                  const cuuint64_t* strides_bytes, const cuuint32_t* box_sizes,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  MapArguments arguments{.context = context_of_maps,
                         .address = address,
                         .rank = rank,
                         .type = type,
                         .interleave = interleave,
                         .swizzle = swizzle,
                         .promotion = promotion,
                         .fill = fill};
  std::copy_n(sizes, rank, arguments.sizes.begin());
  std::copy_n(strides_bytes, rank - 1, arguments.strides_bytes.begin());
  std::copy_n(box_sizes, rank, arguments.box_sizes.begin());
  std::copy_n(element_strides, rank, arguments.element_strides.begin());
  RecentMap& recent = place_of(arguments);
  if (recent.arguments != arguments) {
    CUtensorMap encoded;
    const CUresult result = cuda_driver().launch_calls.tensor_map_encode_tiled(
        &encoded, type, rank, address, sizes, strides_bytes, box_sizes, element_strides, interleave,
        swizzle, promotion, fill);
    if (result != CUDA_SUCCESS) {
      return result;
    }
    recent = {arguments, encoded};
  }
  *map = recent.map;
  return CUDA_SUCCESS;
}

}  // namespace swr
