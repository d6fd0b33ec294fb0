// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/retryable_files.h"

#include <rocksdb/file_system.h>

#include <string>
#include <utility>

namespace rubato::kv {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus retryable(IOStatus status) {
  if (status.IsIOError() && !status.IsPathNotFound()) status.SetRetryable(true);
  return status;
}

class RetryableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;

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
    return retryable(FSWritableFileWrapper::Sync(options, dbg));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::Fsync(options, dbg));
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options,
                     IODebugContext* dbg) override {
    return retryable(FSWritableFileWrapper::RangeSync(offset, bytes, options, dbg));
  }
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
    if (status.ok()) *file = std::make_unique<RetryableFile>(std::move(*file));
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
