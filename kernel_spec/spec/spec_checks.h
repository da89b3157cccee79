// SPDX-License-Identifier: MIT
// What a new spec must not leave silent. Specs that a database holds are read without these checks.
#pragma once

#include <swr/kernel_spec.h>

namespace swr::kernel_spec {

/// Throws: Error{invalid_argument} for a setting that would have no effect: a default that is no
/// value, a parameter by which other tools set the GPU, what belongs to another fill.
void require_settings_with_effect(const KernelSpec& spec);

/// Throws: Error{invalid_argument} where a kernel that stands in the source with all its parameters
/// takes others than its step has. Kernels whose parameters macros or templates hide pass.
void require_arguments_of_kernels(const KernelSpec& spec);

}  // namespace swr::kernel_spec
