// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/options.h"

namespace rubato::kv {

Result<std::unique_ptr<Engine>> open_engine(const KvOptions& options, void (*checkpoint)()) {
  EngineOptions engine;
  engine.checkpoint = checkpoint;
  engine.maxmemory_bytes = options.maxmemory_bytes;
  engine.dir = options.dir;
  engine.durability = options.durability;
  if (options.engine == "memory") return open_memory_engine(engine);
  if (options.engine == "rocksdb") {
    if (options.maxmemory_bytes != 0) {
      return Error{"--maxmemory bounds the memory engine only; the rocksdb engine keeps its data "
                   "on disk"};
    }
    return open_rocksdb_engine(engine);
  }
  return Error{"--engine takes rocksdb or memory, not '" + options.engine + "'"};
}

}  // namespace rubato::kv
