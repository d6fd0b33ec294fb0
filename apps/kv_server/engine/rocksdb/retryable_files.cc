// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/retryable_files.h"

#include <rocksdb/file_system.h>

#include <memory>
#include <string>
#include <utility>

namespace rubato::kv {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// For a full disk RocksDB would have a thread of its own wait for room, and hang if it is closed
// meanwhile. As any other error it waits for the engine, which asks to resume every second.
IOStatus retryable(IOStatus status) {
  if (status.IsNoSpace()) status = IOStatus::IOError(status.getState());
  if (status.IsIOError() && !status.IsPathNotFound()) status.SetRetryable(true);
  return status;
}

// After a failed sync the kernel takes the bytes in question for written, and the next sync of the
// file succeeds without them. RocksDB syncs a log again before it notes the log's size; so from
// then on a sync writes all of the file into a new one in its place.
class RetryableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  RetryableFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string name,
                rocksdb::FileSystem& files)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), files_(files) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Append(data, options, dbg));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& sums, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Append(data, options, sums, dbg));
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Truncate(size, options, dbg));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Close(options, dbg));
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Flush(options, dbg));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(synced(FSWritableFileWrapper::Sync(options, dbg), options, dbg));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(synced(FSWritableFileWrapper::Fsync(options, dbg), options, dbg));
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options,
                     IODebugContext* dbg) override {
    const IOStatus status = FSWritableFileWrapper::RangeSync(offset, bytes, options, dbg);
    has_failed_ = has_failed_ || !status.ok();
    return retryable(status);
  }

 private:
  IOStatus synced(const IOStatus& status, const IOOptions& options, IODebugContext* dbg) {
    if (status.ok() && has_failed_) return written_again(options, dbg);
    has_failed_ = has_failed_ || !status.ok();
    return status;
  }
  IOStatus written_again(const IOOptions& options, IODebugContext* dbg) {
    const std::string fresh = name_ + ".again";
    std::string bytes;
    IOStatus status = rocksdb::ReadFileToString(&files_, name_, &bytes);
    if (status.ok()) status = rocksdb::WriteStringToFile(&files_, bytes, fresh, true);
    if (status.ok()) status = files_.RenameFile(fresh, name_, options, dbg);
    if (!status.ok()) files_.DeleteFile(fresh, options, dbg).PermitUncheckedError();
    return status;
  }

  const std::string name_;
  rocksdb::FileSystem& files_;  // outlives the files of its database
  bool has_failed_ = false;     // as are the other members, for one thread at a time
};

class RetryableFolder final : public rocksdb::FSDirectoryWrapper {
 public:
  using FSDirectoryWrapper::FSDirectoryWrapper;

  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSDirectoryWrapper::Fsync(options, dbg));
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg,
                               const rocksdb::DirFsyncOptions& reason) override {
    return retryable(FSDirectoryWrapper::FsyncWithDirOptions(options, dbg, reason));
  }
};

class RetryableFiles final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "RetryableFiles"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* dbg) override {
    const IOStatus status = retryable(target()->NewWritableFile(name, options, file, dbg));
    if (status.ok()) *file = std::make_unique<RetryableFile>(std::move(*file), name, *target());
    return status;
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* folder,
                        IODebugContext* dbg) override {
    const IOStatus status = retryable(target()->NewDirectory(name, options, folder, dbg));
    if (status.ok()) *folder = std::make_unique<RetryableFolder>(std::move(*folder));
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    return retryable(target()->RenameFile(from, to, options, dbg));
  }
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> with_retryable_writes(
    std::shared_ptr<rocksdb::FileSystem> files) {
  return std::make_shared<RetryableFiles>(std::move(files));
}

}  // namespace rubato::kv
