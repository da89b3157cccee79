// SPDX-License-Identifier: MIT
// The files that SQLite keeps beside a database, and believes: whoever can put one there could have
// it wait for ever, write through a link, change rows or delete a file. So each is looked at when
// SQLite opens it, however long the connection has been open.
#pragma once

#include <string>

namespace swr {

/// The name of SQLite's usual file system (a VFS), which refuses to open a journal, a log or its
/// index that is no regular file of its own name, that a stranger put into a folder where all may
/// write, or a journal of which swr's databases have none: beside a database with a write-ahead
/// log, or one that names another file, which SQLite would delete. Safe from several threads.
const char* careful_file_system();

/// Why this thread was refused a companion since it last opened a database; empty when it was not.
const std::string& companion_refusal();

}  // namespace swr
