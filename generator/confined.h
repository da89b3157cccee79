// SPDX-License-Identifier: MIT
// Work that can open no file, whatever it is made to try.
#pragma once

#include <functional>

namespace swr {

/// Does the work on a thread of its own, for which the system refuses every call that names a file,
/// a process or a connection, as if none existed (seccomp). False, and nothing is done, where the
/// system cannot do that. Other threads are as before. Throws: what `work` throws.
bool run_confined(const std::function<void()>& work);

}  // namespace swr
