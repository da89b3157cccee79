// SPDX-License-Identifier: MIT
#include "runtime/recent_tensor_maps.h"

#include "core/sha256.h"
#include "driver/cuda_driver.h"

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

/// The map made last for each kind of tensor; nullptr where there was none.
thread_local std::array<const RecentMap*, 64> recent_kinds{};

/// The same memory is seen with other lengths and boxes; tensors of a kind differ by address.
std::uint64_t kind_hash(const MapArguments& arguments) {
  std::uint64_t hash = arguments.box_sizes[1];
  for (const std::uint64_t size : {arguments.sizes[0], arguments.sizes[1], arguments.sizes[2]}) {
    hash = mixed(hash, size);
  }
  return hash;
}

bool differ_by_address_alone(MapArguments a, const MapArguments& b) {
  a.address = b.address;
  return a == b;
}

CUresult encode(const MapArguments& arguments, CUtensorMap& map) {
  return cuda_driver().launch_calls.tensor_map_encode_tiled(
      &map, arguments.type, arguments.rank, arguments.address, arguments.sizes.data(),
      arguments.strides_bytes.data(), arguments.box_sizes.data(), arguments.element_strides.data(),
      arguments.interleave, arguments.swizzle, arguments.promotion, arguments.fill);
}

/// The map of a tensor from that of one of its kind, without telling the driver shape and strides.
CUresult replace_address(const RecentMap& alike, const MapArguments& arguments, CUtensorMap& map) {
  // As old as cuTensorMapEncodeTiled, so that every driver that runs such kernels has it.
  static const DriverCall<decltype(cuTensorMapReplaceAddress)> replace{cuda_driver().library,
                                                                       "cuTensorMapReplaceAddress"};
  map = alike.map;
  return replace.result_of(&map, arguments.address);
}

/// Where the driver does not replace an address it encodes, or says why not.
CUresult make_map(const RecentMap* alike, const MapArguments& arguments, CUtensorMap& map) {
  const bool is_made = alike != nullptr && differ_by_address_alone(alike->arguments, arguments) &&
                       replace_address(*alike, arguments, map) == CUDA_SUCCESS;
  return is_made ? CUDA_SUCCESS : encode(arguments, map);
}

}  // namespace

void use_recent_tensor_maps_of(CUcontext context) { context_of_maps = context; }

CUresult encode_recent_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* sizes,
                                  const cuuint64_t* strides_bytes, const cuuint32_t* box_sizes,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > kMostDimensions) {
    return CUDA_ERROR_INVALID_VALUE;
  }
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
  const std::uint64_t kind = kind_hash(arguments);
  RecentMap& recent =
      recent_maps[mixed(kind, reinterpret_cast<std::uintptr_t>(address)) % recent_maps.size()];
  if (recent.arguments != arguments) {
    const RecentMap*& alike = recent_kinds[kind % recent_kinds.size()];
    CUtensorMap made;
    const CUresult result = make_map(alike, arguments, made);
    if (result != CUDA_SUCCESS) {
      return result;
    }
    recent = {arguments, made};
    alike = &recent;
  }
  *map = recent.map;
  return CUDA_SUCCESS;
}

}  // namespace swr
