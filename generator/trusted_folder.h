// SPDX-License-Identifier: MIT
// Whose word a folder is: what lies in it is believed only where no stranger can have put it there.
#pragma once

#include <filesystem>

namespace swr {

/// Who may have put something into a folder that is believed.
enum class Sharing {
  none,   ///< This user and root.
  group,  ///< The members of the folder's group too.
};

constexpr Sharing sharing(bool with_group) { return with_group ? Sharing::group : Sharing::none; }

/// Whether a folder is this user's or root's and only those of `sharing` may write to it. For root,
/// which containers run as, any owner is as good. A folder that is not there holds nothing to
/// believe and counts as trusted.
bool is_trusted(const std::filesystem::path& folder, Sharing sharing);

/// Throws: Error{unreadable} naming the folder and what to do, unless is_trusted().
void require_trusted(const std::filesystem::path& folder, Sharing sharing);

/// Throws: Error{unreadable} naming a folder that is a symbolic link: what it leads to may change.
void require_no_link(const std::filesystem::path& folder);

}  // namespace swr
