// SPDX-License-Identifier: Apache-2.0
//
// The records of RocksDB's write-ahead log, read without RocksDB, to tell what a crash leaves from
// damage. RocksDB's recovery cannot: a length that was flipped to reach past the end of the file, a
// type that is one of a recycled log, a header of zeros all count as the end of the log for it, and
// what follows is dropped in silence.
//
// A log is blocks of 32 KiB with records in them: checksum (CRC-32C of type and data, masked; 4
// bytes), length (2), type (1), data; little endian. A write that does not fit in its block is
// several records, the first, middle ones and the last. No state; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rubato::kv {

enum class LogState : uint8_t {
  kWhole,
  kTorn,     // ends within a write, or in zeros: the server died while it wrote, or before
  kDamaged,  // anything else
};

struct LogFinding {
  LogState state = LogState::kWhole;
  uint64_t offset = 0;  // of the first record that is not whole
  uint64_t bytes = 0;   // of the file
  bool filled_up = false;  // torn, and zeros were put behind what is there of the record
};

// Fails with one line if the file cannot be read.
Result<LogFinding> check_log(const std::string& path);

}  // namespace rubato::kv
