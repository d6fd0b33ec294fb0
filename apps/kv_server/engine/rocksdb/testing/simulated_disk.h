// SPDX-License-Identifier: Apache-2.0
//
// SimulatedDisk: a file system in memory for RocksDB that loses at a power cut what was not synced,
// as a seed has it: names that were made, changed or removed since their folder was synced (in
// their order, as a journal does), and the ends of files, cut at a sector, filled with zeros, or
// with holes if asked for. It fails and fills up on demand, and flips bits. After a failed sync the
// bytes in question never reach the disk, as in Linux.
//
// Any thread may use the file system; one thread, the test's, turns power off and on. Open files of
// before a power cut stay unusable.
#pragma once

#include <rocksdb/file_system.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rubato::kv::testing {

// Which of its operations that change it (create, append, sync, rename, remove, sync a folder)
// fail.
struct DiskFaults {
  static constexpr uint64_t kNever = UINT64_MAX;
  uint64_t power_off_at = kNever;  // counted from when the faults are set
  uint64_t fail_at = kNever;       // this one alone fails with EIO
  uint64_t capacity_bytes = kNever;
  bool holes = false;  // a power cut may lose any unsynced sector, not only the last ones
};

class SimulatedDisk final : public rocksdb::FileSystem {
 public:
  explicit SimulatedDisk(uint64_t seed);

  void set(const DiskFaults& faults);
  bool is_off() const;
  bool has_failed() const;  // fail_at was reached, or the disk was full
  void power_off();
  // Decides what the power cut has left, forgets open files and faults.
  void power_on();
  // Flips a bit of a file that is not empty, and returns its name; a second call restores it. Empty
  // if there is none.
  std::string flip();

  const char* Name() const override { return "SimulatedDisk"; }
  rocksdb::IOStatus NewSequentialFile(const std::string&, const rocksdb::FileOptions&,
                                      std::unique_ptr<rocksdb::FSSequentialFile>*,
                                      rocksdb::IODebugContext*) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string&, const rocksdb::FileOptions&,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>*,
                                        rocksdb::IODebugContext*) override;
  rocksdb::IOStatus NewWritableFile(const std::string&, const rocksdb::FileOptions&,
                                    std::unique_ptr<rocksdb::FSWritableFile>*,
                                    rocksdb::IODebugContext*) override;
  rocksdb::IOStatus NewDirectory(const std::string&, const rocksdb::IOOptions&,
                                 std::unique_ptr<rocksdb::FSDirectory>*,
                                 rocksdb::IODebugContext*) override;
  rocksdb::IOStatus FileExists(const std::string&, const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetChildren(const std::string&, const rocksdb::IOOptions&,
                                std::vector<std::string>*, rocksdb::IODebugContext*) override;
  rocksdb::IOStatus DeleteFile(const std::string&, const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override;
  rocksdb::IOStatus CreateDir(const std::string&, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string&, const rocksdb::IOOptions&,
                                       rocksdb::IODebugContext*) override;
  rocksdb::IOStatus DeleteDir(const std::string&, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetFileSize(const std::string&, const rocksdb::IOOptions&, uint64_t*,
                                rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetFileModificationTime(const std::string&, const rocksdb::IOOptions&,
                                            uint64_t*, rocksdb::IODebugContext*) override;
  rocksdb::IOStatus RenameFile(const std::string&, const std::string&, const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override;
  rocksdb::IOStatus LockFile(const std::string&, const rocksdb::IOOptions&, rocksdb::FileLock**,
                             rocksdb::IODebugContext*) override;
  rocksdb::IOStatus UnlockFile(rocksdb::FileLock*, const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetTestDirectory(const rocksdb::IOOptions&, std::string*,
                                     rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetAbsolutePath(const std::string&, const rocksdb::IOOptions&, std::string*,
                                    rocksdb::IODebugContext*) override;
  rocksdb::IOStatus GetFreeSpace(const std::string&, const rocksdb::IOOptions&, uint64_t*,
                                 rocksdb::IODebugContext*) override;
  rocksdb::IOStatus IsDirectory(const std::string&, const rocksdb::IOOptions&, bool*,
                                rocksdb::IODebugContext*) override;

 private:
  struct Content {
    std::string bytes;
    size_t synced = 0;      // the first so many are on the disk
    bool stuck = false;     // a sync has failed: no more of it gets there
  };
  using Names = std::map<std::string, std::shared_ptr<Content>>;
  // A change of names that the folder's next sync makes last; no content = the name is removed.
  struct NameChange {
    std::string name;
    std::shared_ptr<Content> content;
    std::string from;  // renamed from it
  };
  class Reader;
  class Writer;
  class Folder;

  rocksdb::IOStatus begin(const char* what, const std::string& name);  // of a change; locked
  rocksdb::IOStatus find(const std::string& name, std::shared_ptr<Content>& out) const;
  rocksdb::IOStatus append(Content& content, const std::string& name, rocksdb::Slice data,
                           uint64_t power);
  rocksdb::IOStatus sync(Content& content, const std::string& name, uint64_t power);
  rocksdb::IOStatus sync_names(uint64_t power);
  static void apply(const NameChange& change, Names& names);
  std::shared_ptr<Content> what_is_left(const Content& content, bool holes);

  mutable std::mutex mutex_;  // guards all below
  Prng prng_;
  Names names_;
  Names durable_names_;
  std::vector<NameChange> pending_;
  std::set<std::string> locks_;
  DiskFaults faults_;
  uint64_t changes_ = 0;  // since the faults were set
  uint64_t used_bytes_ = 0;
  uint64_t power_ = 1;    // times that it was turned on
  bool off_ = false;
  bool failed_ = false;
  std::string flipped_;
  size_t flipped_at_ = 0;
  char flipped_bit_ = 0;
};

}  // namespace rubato::kv::testing
