// SPDX-License-Identifier: MIT
// The forms that specs come in, and what must hold of all of them.
#pragma once

#include "core/json.h"
#include "kernel_spec/spec/element_type.h"
#include <swr/kernel_spec.h>

#include <string>

namespace swr::kernel_spec {

// Throw, all of them: Error{invalid_argument} naming what cannot be read.

/// swr's own form (docs/kernels.md). `where` names the file.
KernelSpec read_swr_json(const Json& json, const std::string& where);

/// True for what claims to be a T1 file.
bool is_t1(const Json& json);
KernelSpec read_t1(const Json& json, const std::string& where);

/// A .cu file with pragmas of kernel_launcher's form.
KernelSpec read_pragmas(const std::string& source, const std::string& where);

// Texture arguments: how specs spell them, and what the driver's textures can be.

/// Throws: Error{invalid_argument} naming what cannot be read.
KernelTexture read_texture(const Json& json, const std::string& where);
/// As read_texture() reads it.
Json texture_json(const KernelTexture& texture);

/// Throws: Error{invalid_argument} where no texture can be so, on whatever GPU.
void require_texture(const KernelArgument& argument, const ElementType& type,
                     const std::string& where);

// What a new spec must not leave silent. Specs that a database holds are read without these checks.

/// Throws: Error{invalid_argument} for a setting that would have no effect: a default that is no
/// value, a parameter by which other tools set the GPU, what belongs to another fill.
void require_settings_with_effect(const KernelSpec& spec);

/// Throws: Error{invalid_argument} where a kernel that stands in the source with all its parameters
/// takes others than its step has. Kernels whose parameters macros or templates hide pass.
void require_arguments_of_kernels(const KernelSpec& spec);

}  // namespace swr::kernel_spec
