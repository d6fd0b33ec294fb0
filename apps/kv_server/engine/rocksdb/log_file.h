// SPDX-License-Identifier: Apache-2.0
//
// The records of RocksDB's write-ahead log and its manifest, read without RocksDB's reader, to tell
// the traces of a crash from damage. RocksDB's recovery cannot: it takes a length that was flipped
// to reach past the end of the file, a type of a recycled log, or a header of zeros for the end of
// the log, and drops the later records in silence.
//
// A log is blocks of 32 KiB with records in them: checksum (CRC-32C of type and data, masked; 4
// bytes), length (2), type (1), data; little endian. A write that does not fit in its block is
// several records, the first, middle ones and the last. No state; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rocksdb {
class Env;
}

namespace rubato::kv {

enum class LogState : uint8_t {
  kWhole,
  kTorn,     // ends within a write, or in zeros: the server died while it wrote, or before
  kDamaged,  // anything else
};

struct LogFinding {
  LogState state = LogState::kWhole;
  // Of the first record that is not whole; if torn, of the first record of its write.
  uint64_t offset = 0;
  uint64_t bytes = 0;   // of the file
  bool filled_up = false;  // torn, and zeros follow the part of the write that is there
};

// Fails with one line if the file cannot be read.
Result<LogFinding> check_log(rocksdb::Env& env, const std::string& path);

}  // namespace rubato::kv
