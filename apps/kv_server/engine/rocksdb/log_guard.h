// SPDX-License-Identifier: Apache-2.0
//
// LogGuard: checks the logs of a database, its manifest and CURRENT, which names the manifest,
// before RocksDB reads them, so that damage is refused and not taken for the end of a log, or a
// folder without CURRENT for a new database. It keeps a note in the folder, LIVE_LOG: the number of
// the newest log, which shows that a log is missing, and after a clean stop its size, which shows
// that a log was cut. The note is written without waiting for the disk: a note that is late lets
// more damage pass, and never refuses a whole log.
//
// After a crash the guard does not see damage that makes the last write look cut off, nor a log
// that was cut between two writes; after a clean stop it sees both.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocksdb {
class Env;
class Status;
}

namespace rubato::kv {

// The end of a line that tells of damage.
std::string recover_advice();

class LogGuard {
 public:
  // Borrows the environment, through which it reads and writes.
  LogGuard(std::string dir, rocksdb::Env& env) : dir_(std::move(dir)), env_(env) {}

  // Fails with one line that names the file if a log is damaged or missing. Requires the lock of
  // the database. Cuts off a write, or a change of the manifest, that a crash left unfinished and
  // filled up with zeros, which RocksDB would take for damage.
  Status check() const;

  // Changes damaged logs so that RocksDB reads them up to the damage, and keeps copies of them;
  // makes CURRENT again. Fails if there is no whole manifest.
  struct Recovery {
    std::vector<std::string> lost;  // line by line
    bool cut = false;  // a log is gone or shorter than the manifest may have it
  };
  Result<Recovery> recover() const;

  // Notes which log is the newest. Any thread.
  void note_newest();
  // The same after the database was closed; requires its lock again. Writes no note if another
  // server had the database in between.
  void note_clean_end();

  // Of a copy that nobody else has open: cuts the newest log after its last whole write and notes
  // its size, as after a clean stop, also if there is no log. Waits for the disk. Fails with one
  // line, also if a log is damaged.
  Status seal() const;

 private:
  struct Note {
    uint64_t log = 0;  // 0 = there is none, or if it ended, the database had none
    bool ended = false;
    uint64_t bytes = 0;
  };
  struct Trouble {
    std::string log;  // its file
    std::string what;
    bool missing = false;
    bool torn = false;       // no damage: it ends within a write
    bool filled_up = false;  // torn, and to be cut there
    bool is_newest = false;
    uint64_t offset = 0;  // where to cut it
    uint64_t bytes = 0;
    uint64_t lost = 0;    // of the bytes it has or had
  };

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::vector<uint64_t> logs() const;  // in their order
  Error damaged(const std::string& what) const;
  std::vector<std::string> files() const;
  bool has_tables() const;
  Note read_note() const;
  rocksdb::Status write_note(const Note& note, bool sync) const;
  // What is wrong with CURRENT or the manifest, by file; empty = nothing.
  Result<std::string> manifest_trouble() const;
  Result<std::string> trouble_of(const std::string& manifest) const;
  Status remake_current(std::string& manifest) const;
  Result<std::vector<Trouble>> look() const;
  void look_for_newest(const std::vector<uint64_t>& logs, const Note& note,
                       std::vector<Trouble>& found) const;
  Status cut(const Trouble& trouble) const;
  Status set_aside(const Trouble& trouble, std::string& copy) const;
  // Makes RocksDB read the log up to there; the line that tells of the loss, empty = there is none.
  Result<std::string> leave_out(const Trouble& trouble) const;

  const std::string dir_;
  rocksdb::Env& env_;
  std::mutex mutex_;  // guards the note
  uint64_t newest_ = 0;  // that was noted
};

}  // namespace rubato::kv
