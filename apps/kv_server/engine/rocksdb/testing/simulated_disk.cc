// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/testing/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rubato::kv::testing {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

constexpr size_t kSectorBytes = 512;

// RocksDB writes some names with two slashes.
std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c != '/' || out.empty() || out.back() != '/') out.push_back(c);
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

uint32_t below(Prng& prng, size_t limit) { return prng.below(static_cast<uint32_t>(limit)); }

}  // namespace

class SimulatedDisk::Reader final : public rocksdb::FSSequentialFile,
                                    public rocksdb::FSRandomAccessFile {
 public:
  Reader(const SimulatedDisk& disk, std::shared_ptr<Content> content)
      : disk_(disk), content_(std::move(content)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) override {
    const IOStatus status = Read(at_, n, options, result, scratch, dbg);
    at_ += result->size();
    return status;
  }
  IOStatus Read(uint64_t at, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    const std::lock_guard guard(disk_.mutex_);
    const std::string& bytes = content_->bytes;
    const size_t begin = std::min<size_t>(at, bytes.size());
    const size_t size = std::min(n, bytes.size() - begin);
    std::memcpy(scratch, bytes.data() + begin, size);
    *result = Slice(scratch, size);
    return IOStatus::OK();
  }
  IOStatus Skip(uint64_t n) override {
    at_ += n;
    return IOStatus::OK();
  }
  size_t GetRequiredBufferAlignment() const override { return 1; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  rocksdb::Temperature GetTemperature() const override { return rocksdb::Temperature::kUnknown; }

 private:
  const SimulatedDisk& disk_;
  const std::shared_ptr<Content> content_;
  uint64_t at_ = 0;
};

class SimulatedDisk::Writer final : public rocksdb::FSWritableFile {
 public:
  Writer(SimulatedDisk& disk, std::string name, std::shared_ptr<Content> content)
      : disk_(disk), name_(std::move(name)), content_(std::move(content)), power_(disk.power_) {}

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return disk_.append(*content_, name_, data, power_);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return disk_.sync(*content_, name_, power_);
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    const std::lock_guard guard(disk_.mutex_);
    return content_->bytes.size();
  }

 private:
  SimulatedDisk& disk_;
  const std::string name_;
  const std::shared_ptr<Content> content_;
  const uint64_t power_;
};

class SimulatedDisk::Folder final : public rocksdb::FSDirectory {
 public:
  explicit Folder(SimulatedDisk& disk) : disk_(disk), power_(disk.power_) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return disk_.sync_names(power_); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  SimulatedDisk& disk_;
  const uint64_t power_;
};

SimulatedDisk::SimulatedDisk(uint64_t seed) : prng_(seed) {}

void SimulatedDisk::set(const DiskFaults& faults) {
  const std::lock_guard guard(mutex_);
  faults_ = faults;
  changes_ = 0;
  failed_ = false;
}

bool SimulatedDisk::is_off() const {
  const std::lock_guard guard(mutex_);
  return off_;
}

bool SimulatedDisk::has_failed() const {
  const std::lock_guard guard(mutex_);
  return failed_;
}

void SimulatedDisk::power_off() {
  const std::lock_guard guard(mutex_);
  off_ = true;
}

void SimulatedDisk::power_on() {
  const std::lock_guard guard(mutex_);
  const size_t kept = below(prng_, pending_.size() + 1);
  for (size_t i = 0; i < kept; ++i) apply(pending_[i], durable_names_);
  pending_.clear();
  names_.clear();
  used_bytes_ = 0;
  for (auto& [name, content] : durable_names_) {
    content = what_is_left(*content, faults_.holes);
    used_bytes_ += content->bytes.size();
    names_[name] = content;
  }
  locks_.clear();
  faults_ = DiskFaults();
  off_ = failed_ = false;
  ++power_;
}

// Of the bytes that were not synced, as the disk and the file system happened to write them.
std::shared_ptr<SimulatedDisk::Content> SimulatedDisk::what_is_left(const Content& content,
                                                                    bool holes) {
  auto left = std::make_shared<Content>();
  const size_t size = content.bytes.size();
  size_t end = content.synced;  // of what is there for certain
  const uint32_t luck = prng_.below(holes ? 4 : 3);
  if (luck > 0 && end < size) {
    const size_t sectors = (size - end) / kSectorBytes + 2;
    end = std::clamp((end / kSectorBytes + below(prng_, sectors)) * kSectorBytes, end, size);
  }
  left->bytes = content.bytes.substr(0, end);
  if (luck == 2) left->bytes.resize(size, '\0');
  if (luck == 3) {
    left->bytes = content.bytes;
    for (size_t at = content.synced; at < size;) {
      const size_t next = std::min(size, (at / kSectorBytes + 1) * kSectorBytes);
      if (prng_.below(2) == 0) left->bytes.replace(at, next - at, next - at, '\0');
      at = next;
    }
  }
  left->synced = left->bytes.size();
  return left;
}

std::string SimulatedDisk::flip() {
  const std::lock_guard guard(mutex_);
  if (flipped_.empty()) {
    std::vector<std::string> files;
    for (const auto& [name, content] : names_) {
      if (!content->bytes.empty()) files.push_back(name);
    }
    if (files.empty()) return "";
    flipped_ = files[below(prng_, files.size())];
    flipped_at_ = below(prng_, names_[flipped_]->bytes.size());
    flipped_bit_ = static_cast<char>(1 << prng_.below(8));
  }
  const auto found = names_.find(flipped_);
  if (found != names_.end() && flipped_at_ < found->second->bytes.size()) {
    char& byte = found->second->bytes[flipped_at_];
    byte = static_cast<char>(byte ^ flipped_bit_);
  }
  return flipped_.substr(flipped_.rfind('/') + 1);
}

IOStatus SimulatedDisk::begin(const char* what, const std::string& name) {
  const uint64_t now = changes_++;
  if (now >= faults_.power_off_at) off_ = true;
  if (off_) return IOStatus::IOError(name, "the power is off");
  if (now != faults_.fail_at) return IOStatus::OK();
  failed_ = true;
  return IOStatus::IOError(std::string("While ") + what + ": " + name, "Input/output error");
}

IOStatus SimulatedDisk::find(const std::string& name, std::shared_ptr<Content>& out) const {
  if (off_) return IOStatus::IOError(name, "the power is off");
  const auto found = names_.find(plain(name));
  if (found == names_.end()) return IOStatus::PathNotFound(name, "No such file or directory");
  out = found->second;
  return IOStatus::OK();
}

IOStatus SimulatedDisk::append(Content& content, const std::string& name, Slice data,
                               uint64_t power) {
  const std::lock_guard guard(mutex_);
  if (power != power_) return IOStatus::IOError(name, "open since before the power was off");
  const IOStatus status = begin("appending to", name);
  // What was cut short may have been written in part.
  const size_t part = status.ok() ? data.size() : below(prng_, data.size() + 1);
  if (used_bytes_ + data.size() > faults_.capacity_bytes) {
    failed_ = true;
    IOStatus full = IOStatus::NoSpace("While appending to: " + name, "No space left on device");
    full.SetRetryable(true);
    return full;
  }
  content.bytes.append(data.data(), part);
  used_bytes_ += part;
  return status;
}

IOStatus SimulatedDisk::sync(Content& content, const std::string& name, uint64_t power) {
  const std::lock_guard guard(mutex_);
  if (power != power_) return IOStatus::IOError(name, "open since before the power was off");
  const IOStatus status = begin("syncing", name);
  if (!status.ok() && !off_) content.stuck = true;
  if (status.ok() && !content.stuck) content.synced = content.bytes.size();
  return status;
}

IOStatus SimulatedDisk::sync_names(uint64_t power) {
  const std::lock_guard guard(mutex_);
  if (power != power_) return IOStatus::IOError("folder", "open since before the power was off");
  const IOStatus status = begin("syncing a folder", "");
  if (!status.ok()) return status;
  for (const NameChange& change : pending_) apply(change, durable_names_);
  pending_.clear();
  return status;
}

void SimulatedDisk::apply(const NameChange& change, Names& names) {
  if (!change.from.empty()) names.erase(change.from);
  if (change.content == nullptr) {
    names.erase(change.name);
  } else {
    names[change.name] = change.content;
  }
}

IOStatus SimulatedDisk::NewSequentialFile(const std::string& name, const FileOptions&,
                                          std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                          IODebugContext*) {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<Content> content;
  const IOStatus status = find(name, content);
  if (status.ok()) *file = std::make_unique<Reader>(*this, std::move(content));
  return status;
}

IOStatus SimulatedDisk::NewRandomAccessFile(const std::string& name, const FileOptions&,
                                            std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                            IODebugContext*) {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<Content> content;
  const IOStatus status = find(name, content);
  if (status.ok()) *file = std::make_unique<Reader>(*this, std::move(content));
  return status;
}

IOStatus SimulatedDisk::NewWritableFile(const std::string& name, const FileOptions&,
                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                        IODebugContext*) {
  const std::lock_guard guard(mutex_);
  const IOStatus status = begin("creating", name);
  if (!status.ok()) return status;
  auto content = std::make_shared<Content>();
  const NameChange change{plain(name), content, ""};
  apply(change, names_);
  pending_.push_back(change);
  *file = std::make_unique<Writer>(*this, change.name, std::move(content));
  return status;
}

IOStatus SimulatedDisk::NewDirectory(const std::string& name, const IOOptions&,
                                     std::unique_ptr<rocksdb::FSDirectory>* folder,
                                     IODebugContext*) {
  const std::lock_guard guard(mutex_);
  if (off_) return IOStatus::IOError(name, "the power is off");
  *folder = std::make_unique<Folder>(*this);
  return IOStatus::OK();
}

IOStatus SimulatedDisk::FileExists(const std::string& name, const IOOptions&, IODebugContext*) {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<Content> content;
  const IOStatus status = find(name, content);
  return status.IsPathNotFound() ? IOStatus::NotFound() : status;
}

IOStatus SimulatedDisk::GetChildren(const std::string& name, const IOOptions&,
                                    std::vector<std::string>* children, IODebugContext*) {
  const std::lock_guard guard(mutex_);
  children->clear();
  if (off_) return IOStatus::IOError(name, "the power is off");
  const std::string folder = plain(name) + "/";
  for (const auto& [path, content] : names_) {
    if (path.starts_with(folder)) children->push_back(path.substr(folder.size()));
  }
  return IOStatus::OK();
}

IOStatus SimulatedDisk::DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) {
  const std::lock_guard guard(mutex_);
  IOStatus status = begin("removing", name);
  std::shared_ptr<Content> content;
  if (status.ok()) status = find(name, content);
  if (!status.ok()) return status;
  used_bytes_ -= std::min<uint64_t>(used_bytes_, content->bytes.size());
  pending_.push_back({plain(name), nullptr, ""});
  apply(pending_.back(), names_);
  return status;
}

IOStatus SimulatedDisk::RenameFile(const std::string& from, const std::string& to,
                                   const IOOptions&, IODebugContext*) {
  const std::lock_guard guard(mutex_);
  IOStatus status = begin("renaming", from);
  std::shared_ptr<Content> content;
  if (status.ok()) status = find(from, content);
  if (!status.ok()) return status;
  pending_.push_back({plain(to), content, plain(from)});
  apply(pending_.back(), names_);
  return status;
}

IOStatus SimulatedDisk::GetFileSize(const std::string& name, const IOOptions&, uint64_t* size,
                                    IODebugContext*) {
  const std::lock_guard guard(mutex_);
  std::shared_ptr<Content> content;
  const IOStatus status = find(name, content);
  *size = status.ok() ? content->bytes.size() : 0;
  return status;
}

IOStatus SimulatedDisk::LockFile(const std::string& name, const IOOptions&,
                                 rocksdb::FileLock** lock, IODebugContext*) {
  struct Lock final : rocksdb::FileLock {
    std::string name;
  };
  const std::lock_guard guard(mutex_);
  if (off_) return IOStatus::IOError(name, "the power is off");
  if (!locks_.insert(name).second) return IOStatus::IOError("lock hold by current process", name);
  auto* const made = new Lock;
  made->name = name;
  *lock = made;
  return IOStatus::OK();
}

IOStatus SimulatedDisk::UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) {
  const std::lock_guard guard(mutex_);
  locks_.clear();  // there is one database
  delete lock;
  return IOStatus::OK();
}

// There is one folder, which is always there.
IOStatus SimulatedDisk::CreateDir(const std::string&, const IOOptions&, IODebugContext*) {
  return IOStatus::OK();
}
IOStatus SimulatedDisk::CreateDirIfMissing(const std::string&, const IOOptions&,
                                           IODebugContext*) {
  return IOStatus::OK();
}
IOStatus SimulatedDisk::DeleteDir(const std::string&, const IOOptions&, IODebugContext*) {
  return IOStatus::OK();
}
IOStatus SimulatedDisk::IsDirectory(const std::string& name, const IOOptions& options, bool* is,
                                    IODebugContext* dbg) {
  *is = !FileExists(name, options, dbg).ok();
  return IOStatus::OK();
}
IOStatus SimulatedDisk::GetFileModificationTime(const std::string&, const IOOptions&,
                                                uint64_t* time, IODebugContext*) {
  *time = 0;
  return IOStatus::OK();
}
IOStatus SimulatedDisk::GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) {
  *path = "/test";
  return IOStatus::OK();
}
IOStatus SimulatedDisk::GetAbsolutePath(const std::string& path, const IOOptions&,
                                        std::string* out, IODebugContext*) {
  *out = path;
  return IOStatus::OK();
}
IOStatus SimulatedDisk::GetFreeSpace(const std::string&, const IOOptions&, uint64_t* bytes,
                                     IODebugContext*) {
  const std::lock_guard guard(mutex_);
  *bytes = faults_.capacity_bytes - std::min(faults_.capacity_bytes, used_bytes_);
  return IOStatus::OK();
}

}  // namespace rubato::kv::testing
