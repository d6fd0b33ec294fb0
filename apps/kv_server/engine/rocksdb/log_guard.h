// SPDX-License-Identifier: Apache-2.0
//
// LogGuard: checks the logs of a database before RocksDB reads them, so that damage is refused and
// not taken for the end of a log. It keeps a note in the folder, LIVE_LOG: the number of the newest
// log, which shows that a log is missing, and after a clean stop its size, which shows that a log
// was cut. The note is written without waiting for the disk: a note that is late lets more damage
// pass, and never refuses a whole log.
//
// After a crash the guard does not see damage that makes the last write look cut off, nor a log
// that was cut between two writes; after a clean stop it sees both.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::kv {

class LogGuard {
 public:
  explicit LogGuard(std::string dir) : dir_(std::move(dir)) {}

  // Fails with one line that names the file if a log is damaged or missing. Requires the lock of
  // the database. Cuts off a write that a crash left unfinished and filled up with zeros, which
  // RocksDB would take for damage.
  Status check() const;

  // Changes damaged logs so that RocksDB reads them up to the damage, and keeps copies of them.
  // Returns the losses, line by line.
  Result<std::vector<std::string>> recover() const;

  // Notes which log is the newest. Any thread.
  void note_newest();
  // The same after the database was closed; requires its lock again. Writes no note if another
  // server had the database in between.
  void note_clean_end();

 private:
  struct Note {
    uint64_t log = 0;  // 0 = there is none
    bool ended = false;
    uint64_t bytes = 0;
  };
  struct Trouble {
    std::string log;  // its file
    std::string what;
    bool missing = false;
    bool filled_up = false;  // no damage: to be cut where it is torn
    uint64_t offset = 0;  // where to cut it
    uint64_t bytes = 0;
    uint64_t lost = 0;    // of the bytes it has or had
  };

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::vector<uint64_t> logs() const;  // in their order
  bool has_tables() const;
  Note read_note() const;
  void write_note(const Note& note) const;
  Result<std::vector<Trouble>> look() const;
  void look_for_newest(const std::vector<uint64_t>& logs, const Note& note,
                       std::vector<Trouble>& found) const;
  Status cut(const Trouble& trouble) const;
  Status set_aside(const Trouble& trouble, std::string& copy) const;

  const std::string dir_;
  std::mutex mutex_;  // guards the note
  uint64_t newest_ = 0;  // that was noted
};

}  // namespace rubato::kv
