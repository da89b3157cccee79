// SPDX-License-Identifier: MIT
// The forms that specs come in.
#pragma once

#include "core/json.h"
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

}  // namespace swr::kernel_spec
