// SPDX-License-Identifier: MIT
// Whose word a folder is: what lies in it is believed only where no stranger can have put it there.
#pragma once

#include <filesystem>

namespace swr {

/// Whether a folder is this user's or root's and not everybody may write to it. Members of its
/// group may: a folder shared with a group is as good as the group (docs/security.md). For root,
/// which containers run as, any owner is as good. A folder that is not there holds nothing to
/// believe and counts as trusted.
bool is_trusted(const std::filesystem::path& folder);

/// Throws: Error{unreadable} naming the folder and what to do, unless is_trusted().
void require_trusted(const std::filesystem::path& folder);

}  // namespace swr
