// SPDX-License-Identifier: MIT
// A small database for the targets that ask one: equal bytes in every process.
#pragma once

#include <swr/device.h>

#include <string>

namespace swr::fuzz {

DeviceInfo stored_device();

/// The bytes of a database of this schema with results of both operations, finals and references.
const std::string& stored_database();

}  // namespace swr::fuzz
