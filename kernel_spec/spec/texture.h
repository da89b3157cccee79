// SPDX-License-Identifier: MIT
// Texture arguments: how specs spell them, and what the driver's textures can be.
#pragma once

#include "core/json.h"
#include "kernel_spec/spec/element_type.h"
#include <swr/kernel_spec.h>

#include <string>

namespace swr::kernel_spec {

/// Throws: Error{invalid_argument} naming what cannot be read.
KernelTexture read_texture(const Json& json, const std::string& where);
/// As read_texture() reads it.
Json texture_json(const KernelTexture& texture);

/// Throws: Error{invalid_argument} where no texture can be so, on whatever GPU.
void require_texture(const KernelArgument& argument, const ElementType& type,
                     const std::string& where);

}  // namespace swr::kernel_spec
