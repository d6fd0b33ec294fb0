// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/backup.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "kv_server/engine/rocksdb/log_guard.h"

namespace rubato::kv {
namespace {

namespace fs = std::filesystem;

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Result<fs::path> whole_path(const std::string& name) {
  std::error_code trouble;
  const fs::path found = fs::weakly_canonical(fs::absolute(name, trouble), trouble);
  if (trouble) return Error{name + ": " + trouble.message()};
  return found.has_filename() ? found : found.parent_path();
}

// In the folder of a database every name that RocksDB could take for its own has a meaning.
bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// The path, if it may be made.
Result<fs::path> free_path(rocksdb::Env& env, const std::string& from, const std::string& to) {
  const auto is_control = [](unsigned char c) { return c < ' ' || c == '\x7f'; };
  if (to.empty() || std::any_of(to.begin(), to.end(), is_control)) {
    return Error{"the name of the folder is empty or has control characters"};
  }
  Result<fs::path> path = whole_path(to);
  if (!path.ok()) return path;
  const Result<fs::path> folder = whole_path(from);
  if (!folder.ok()) return folder;
  if (lies_in(*path, folder.value())) {
    return Error{path->string() + " is in the folder of the database itself"};
  }
  if (env.FileExists(path->string()).ok()) return Error{path->string() + " exists already"};
  return path;
}

// RocksDB and this file remove what they have made, so that a folder of that name is left from a
// process that died.
Status check_not_begun(rocksdb::Env& env, const std::string& staging) {
  for (const std::string& name : {staging, staging + ".tmp"}) {
    if (!env.FileExists(name).ok()) continue;
    return Error{name + " exists already, perhaps from a backup that was cut short: remove it"};
  }
  return Done{};
}

void remove_folder(rocksdb::Env& env, const std::string& folder) {
  std::vector<std::string> names;
  env.GetChildren(folder, &names).PermitUncheckedError();
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    env.DeleteFile(folder + "/" + name).PermitUncheckedError();
  }
  env.DeleteDir(folder).PermitUncheckedError();
}

rocksdb::Status sync_folder(rocksdb::Env& env, const std::string& folder) {
  std::unique_ptr<rocksdb::Directory> opened;
  const rocksdb::Status status = env.NewDirectory(folder, &opened);
  return status.ok() ? opened->Fsync() : status;
}

rocksdb::Status make_checkpoint(rocksdb::DB& db, const std::string& folder) {
  rocksdb::Checkpoint* made = nullptr;
  const rocksdb::Status status = rocksdb::Checkpoint::Create(&db, &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  return status.ok() ? checkpoint->CreateCheckpoint(folder) : status;
}

// The log that was written to meanwhile may end within a write.
Status finish(rocksdb::Env& env, const std::string& staging, const std::string& path) {
  if (Status sealed = LogGuard(staging, env).seal(); !sealed.ok()) return sealed;
  rocksdb::Status status = sync_folder(env, staging);
  if (status.ok()) status = env.RenameFile(staging, path);
  if (status.ok()) status = sync_folder(env, fs::path(path).parent_path().string());
  return status.ok() ? Status(Done{}) : Error{one_line(status.ToString())};
}

}  // namespace

Status make_backup(rocksdb::DB& db, rocksdb::Env& env, const std::string& from,
                   const std::string& to) {
  const Result<fs::path> path = free_path(env, from, to);
  if (!path.ok()) return Error{path.error()};
  const std::string staging = path.value().string() + ".partial";
  if (Status fresh = check_not_begun(env, staging); !fresh.ok()) return fresh;
  const rocksdb::Status copied = make_checkpoint(db, staging);
  if (!copied.ok()) return Error{one_line(copied.ToString())};
  Status finished = finish(env, staging, path.value().string());
  if (!finished.ok()) remove_folder(env, staging);
  return finished;
}

}  // namespace rubato::kv
