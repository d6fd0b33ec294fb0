// SPDX-License-Identifier: Apache-2.0
//
// A file system whose failures to write are retryable in RocksDB's sense: it takes no writes until
// it is asked to resume, and then writes what it has in memory into new files. Else only a full
// disk is so, and a failed log, even for a moment's lack of descriptors, would stop all writes
// until the database is opened again. Nothing is written again to a file that failed: when it is to
// be synced again, a copy takes its place.
#pragma once

#include <memory>

namespace rocksdb {
class FileSystem;
}

namespace rubato::kv {

// Any thread, as `files`, which it shares.
std::shared_ptr<rocksdb::FileSystem> with_retryable_writes(
    std::shared_ptr<rocksdb::FileSystem> files);

}  // namespace rubato::kv
