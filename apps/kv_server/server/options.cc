// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/options.h"

#include <malloc.h>

#include <algorithm>

namespace rubato::kv {
namespace {

// glibc keeps small freed chunks apart and merges all of them at once when next a large one is
// freed or taken. Behind a FLUSHALL of a million keys that is one step of 190 ms that no checkpoint
// can break. Without that list the merging is done chunk by chunk; the cost per SET is not
// measurable. For the whole process.
void merge_freed_memory_in_small_steps() { mallopt(M_MXFAST, 0); }

}  // namespace

bool KvOptions::has_memcached_port() const {
  return memcached_udp ||
         std::find(ports.begin(), ports.end(), Speaks::kMemcached) != ports.end();
}

Result<std::unique_ptr<Engine>> open_engine(const KvOptions& options, bool (*checkpoint)()) {
  merge_freed_memory_in_small_steps();
  EngineOptions engine;
  engine.checkpoint = checkpoint;
  engine.maxmemory_bytes = options.maxmemory_bytes;
  engine.eviction = options.eviction;
  engine.account = options.memory;
  if (options.memory != nullptr) {
    options.memory->set_output_limit(options.output_limits.normal);
    options.memory->set_input_limit(options.query_buffer_bytes);
  }
  engine.dir = options.dir;
  engine.durability = options.durability;
  engine.table_files = options.table_files;
  engine.recover = options.recover;
  if (options.engine == "memory") return open_memory_engine(engine);
  if (options.engine == "rocksdb") {
    if (options.maxmemory_bytes != 0 && options.maxmemory_bytes < kMinRocksMemoryBytes) {
      return Error{"--maxmemory: takes 32mb at least with --engine rocksdb"};
    }
    if (options.eviction != Eviction::kNone) {
      return Error{"--maxmemory-policy: takes noeviction with --engine rocksdb, whose data are on "
                   "disk"};
    }
    return open_rocksdb_engine(engine);
  }
  return Error{"--engine takes rocksdb or memory, not '" + options.engine + "'"};
}

}  // namespace rubato::kv
