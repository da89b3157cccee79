// SPDX-License-Identifier: MIT
#include "kernel_spec/operation/buffers.h"

#include <algorithm>

namespace swr {
namespace {

using kernel_spec::ElementType;
using kernel_spec::NumberKind;

CUarray_format format_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::i8:
      return CU_AD_FORMAT_SIGNED_INT8;
    case NumberKind::u8:
      return CU_AD_FORMAT_UNSIGNED_INT8;
    case NumberKind::i16:
      return CU_AD_FORMAT_SIGNED_INT16;
    case NumberKind::u16:
      return CU_AD_FORMAT_UNSIGNED_INT16;
    case NumberKind::i32:
      return CU_AD_FORMAT_SIGNED_INT32;
    case NumberKind::u32:
      return CU_AD_FORMAT_UNSIGNED_INT32;
    default:
      return CU_AD_FORMAT_FLOAT;
  }
}

CUaddress_mode mode_of(TextureAddress address) {
  switch (address) {
    case TextureAddress::clamp:
      return CU_TR_ADDRESS_MODE_CLAMP;
    case TextureAddress::border:
      return CU_TR_ADDRESS_MODE_BORDER;
    case TextureAddress::wrap:
      return CU_TR_ADDRESS_MODE_WRAP;
    case TextureAddress::mirror:
      return CU_TR_ADDRESS_MODE_MIRROR;
  }
  return CU_TR_ADDRESS_MODE_CLAMP;
}

/// Sides that an array has not are 0 to create it, and 1 to copy.
void copy_to(CUarray array, const ElementType& type, const std::array<std::size_t, 3>& extent,
             std::span<const std::byte> elements) {
  const std::size_t row = extent[0] * type.bytes();
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = elements.data();
  copy.srcPitch = row;
  copy.srcHeight = std::max<std::size_t>(extent[1], 1);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = row;
  copy.Height = copy.srcHeight;
  copy.Depth = std::max<std::size_t>(extent[2], 1);
  cuda_driver().copy_box(&copy);
}

CUtexObject object_over(CUarray array, const KernelTexture& texture) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC how{};
  std::ranges::fill(how.addressMode, mode_of(texture.address));
  how.filterMode = texture.interpolates ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
  how.flags = (texture.is_normalized ? CU_TRSF_NORMALIZED_COORDINATES : 0U) |
              (texture.reads_fractions ? 0U : CU_TRSF_READ_AS_INTEGER);
  CUtexObject object = 0;
  cuda_driver().texture_create(&object, &resource, &how,
                               static_cast<const CUDA_RESOURCE_VIEW_DESC*>(nullptr));
  return object;
}

}  // namespace

TextureMemory::TextureMemory(const KernelTexture& texture, const ElementType& type,
                             const std::array<std::size_t, 3>& extent,
                             std::span<const std::byte> elements) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = extent[0];
  shape.Height = extent[1];
  shape.Depth = extent[2];
  shape.Format = format_of(type.kind);
  shape.NumChannels = static_cast<unsigned>(type.lanes);
  cuda_driver().array_create(&array_, &shape);
  try {
    copy_to(array_, type, extent, elements);
    object_ = object_over(array_, texture);
  } catch (...) {
    cuda_driver().array_destroy.result_of(array_);
    throw;
  }
}

TextureMemory::~TextureMemory() {
  cuda_driver().texture_destroy.result_of(object_);
  cuda_driver().array_destroy.result_of(array_);
}

}  // namespace swr
