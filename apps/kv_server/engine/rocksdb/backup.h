// SPDX-License-Identifier: Apache-2.0
//
// Backups of an open database: a folder that is whole as soon as it has its name, with which a
// server starts as after a clean stop. Tables are hard links where the folder is on the same file
// system, else copies. Any thread, one at a time for one folder; blocks while files are written.
#pragma once

#include <string>

#include "base/result.h"

namespace rocksdb {
class DB;
class Env;
}

namespace rubato::kv {

// Makes the folder `to` with all writes that `db`, whose folder is `from`, has acknowledged, and
// perhaps some that it gets meanwhile: of all writes, in their order, the first so many. `to` is
// absolute or relative to the working directory; it must not exist, but its parent must. Fails with
// one line, and then leaves nothing behind unless the process dies meanwhile.
Status make_backup(rocksdb::DB& db, rocksdb::Env& env, const std::string& from,
                   const std::string& to);

}  // namespace rubato::kv
