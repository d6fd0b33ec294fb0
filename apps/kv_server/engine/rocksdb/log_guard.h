// SPDX-License-Identifier: Apache-2.0
//
// LogGuard: looks at the logs of a database before RocksDB reads them, so that damage is refused
// and not taken for their end. It keeps a note in the folder, LIVE_LOG: the number of the newest
// log, by which a log that is gone is missed, and after a clean stop its size, by which a log that
// was cut is. The note is written without waiting for the disk: one that is late lets more pass,
// and refuses nothing that is whole.
//
// Not seen is damage of the last write after a crash that makes it look cut off, and a log that was
// cut between two writes after a crash; after a clean stop both are seen.
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

  // Fails with one line that names the file if a log is damaged or missing. The caller holds the
  // lock of the database. Cuts off a write that a crash left unfinished and filled up with zeros,
  // which RocksDB would take for damage.
  Status check() const;

  // Makes of damaged logs what RocksDB reads up to the damage, and keeps copies of them. Returns
  // what is lost by that, line by line.
  Result<std::vector<std::string>> recover() const;

  // Notes which log is the newest. Any thread.
  void note_newest();
  // The same after the database was closed; the caller holds its lock again. Notes nothing if
  // another server had the database in between.
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
