// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/log_guard.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "kv_server/engine/rocksdb/log_file.h"

namespace rubato::kv {
namespace {

constexpr const char* kNoteName = "LIVE_LOG";
constexpr const char* kEnded = "ended";
constexpr const char* kCurrent = "CURRENT";
constexpr std::string_view kManifest = "MANIFEST-";
// So many bytes of a damaged record's header are left, which show RocksDB that more was there.
constexpr uint64_t kTornBytes = 3;

// As RocksDB names it: at least six digits.
std::string log_name(uint64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
  return digits + ".log";
}

// The number of a log; 0 = the file is no log.
uint64_t log_number(const std::string& name) {
  constexpr std::string_view kSuffix = ".log";
  if (!name.ends_with(kSuffix)) return 0;
  uint64_t number = 0;
  const char* const end = name.data() + name.size() - kSuffix.size();
  const auto [stop, problem] = std::from_chars(name.data(), end, number);
  return problem == std::errc() && stop == end ? number : 0;
}

// By a new file, so that a crash leaves the old or the new one.
rocksdb::Status cut_file(rocksdb::Env& env, const std::string& path, uint64_t bytes) {
  std::string kept;
  rocksdb::Status status = rocksdb::ReadFileToString(&env, path, &kept);
  if (!status.ok()) return status;
  kept.resize(bytes);
  const std::string fresh = path + ".cut";
  status = rocksdb::WriteStringToFile(&env, kept, fresh, true);
  return status.ok() ? env.RenameFile(fresh, path) : status;
}

}  // namespace

std::string recover_advice() {
  return "; --recover goes on with what can be read, and says what is lost";
}

std::vector<std::string> LogGuard::files() const {
  std::vector<std::string> names;
  env_.GetChildren(dir_, &names).PermitUncheckedError();
  return names;
}

std::vector<uint64_t> LogGuard::logs() const {
  std::vector<uint64_t> found;
  for (const std::string& name : files()) {
    if (const uint64_t number = log_number(name); number != 0) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool LogGuard::has_tables() const {
  const std::vector<std::string> names = files();
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.ends_with(".sst"); });
}

LogGuard::Note LogGuard::read_note() const {
  std::string bytes;
  rocksdb::ReadFileToString(&env_, path(kNoteName), &bytes).PermitUncheckedError();
  std::istringstream text(bytes);
  Note note;
  std::string word;
  if (!(text >> note.log)) return {};
  note.ended = text >> word >> note.bytes && word == kEnded;
  return note;
}

// Replaces the note only by a complete new one; if the disk is full the old note stays.
rocksdb::Status LogGuard::write_note(const Note& note, bool sync) const {
  const std::string fresh = path(std::string(kNoteName) + ".new");
  std::string text = std::to_string(note.log);
  if (note.ended) text.append(" ").append(kEnded).append(" ") += std::to_string(note.bytes);
  rocksdb::Status status = rocksdb::WriteStringToFile(&env_, text + '\n', fresh, sync);
  if (status.ok()) status = env_.RenameFile(fresh, path(kNoteName));
  if (!status.ok()) env_.DeleteFile(fresh).PermitUncheckedError();
  return status;
}

void LogGuard::note_newest() {
  const std::lock_guard guard(mutex_);
  const std::vector<uint64_t> all = logs();
  if (all.empty() || all.back() == newest_) return;
  newest_ = all.back();
  write_note({newest_, false, 0}, false).PermitUncheckedError();
}

void LogGuard::note_clean_end() {
  const std::lock_guard guard(mutex_);
  const std::vector<uint64_t> all = logs();
  if (all.empty() || all.back() != newest_) return;
  uint64_t bytes = 0;
  const bool known = env_.GetFileSize(path(log_name(all.back())), &bytes).ok();
  if (known) write_note({all.back(), true, bytes}, false).PermitUncheckedError();
}

Status LogGuard::seal() const {
  const std::vector<uint64_t> all = logs();
  Note note{all.empty() ? 0 : all.back(), true, 0};
  rocksdb::Status status;
  for (const uint64_t number : all) {
    const std::string name = log_name(number);
    const Result<LogFinding> checked = check_log(env_, path(name));
    if (!checked.ok()) return Error{checked.error()};
    const LogFinding& log = checked.value();
    if (log.state == LogState::kDamaged) {
      return Error{path(name) + " is damaged at byte " + std::to_string(log.offset)};
    }
    const bool torn = log.state == LogState::kTorn;
    if (number != note.log) continue;
    note.bytes = torn ? log.offset : log.bytes;
    if (torn) status = cut_file(env_, path(name), note.bytes);
  }
  if (status.ok()) status = write_note(note, true);
  if (!status.ok()) return Error{"cannot write in " + dir_ + ": " + status.ToString()};
  return Done{};
}

// A crash while a database was made leaves a manifest without CURRENT, and no tables or logs.
Result<std::string> LogGuard::manifest_trouble() const {
  std::string text;
  if (env_.FileExists(path(kCurrent)).IsNotFound()) {
    const Note note = read_note();
    const bool in_use = !logs().empty() || has_tables() || note.log != 0 || note.ended;
    return std::string(in_use ? "CURRENT is missing" : "");
  }
  const rocksdb::Status status = rocksdb::ReadFileToString(&env_, path(kCurrent), &text);
  if (!status.ok()) return Error{"cannot read " + path(kCurrent) + ": " + status.ToString()};
  const bool is_name = text.starts_with(kManifest) && text.ends_with('\n') &&
                       text.find('\n') == text.size() - 1 && text.find('/') == text.npos;
  if (!is_name) return std::string("CURRENT is damaged");
  text.pop_back();
  if (env_.FileExists(path(text)).IsNotFound()) return text + ", which CURRENT names, is missing";
  return trouble_of(text);
}

Result<std::string> LogGuard::trouble_of(const std::string& manifest) const {
  const Result<LogFinding> checked = check_log(env_, path(manifest));
  if (!checked.ok()) return Error{checked.error()};
  if (checked.value().filled_up) {
    const rocksdb::Status status = cut_file(env_, path(manifest), checked.value().offset);
    if (!status.ok()) return Error{"cannot cut " + path(manifest) + ": " + status.ToString()};
  }
  if (checked.value().state != LogState::kDamaged) return std::string();
  return manifest + " is damaged at byte " + std::to_string(checked.value().offset) + " of " +
         std::to_string(checked.value().bytes);
}

// The newest manifest is the right one: it is whole before CURRENT names it, and the older one is
// removed after that.
Status LogGuard::remake_current(std::string& manifest) const {
  for (const std::string& name : files()) {
    const bool longer = name.size() > manifest.size();
    if (!name.starts_with(kManifest)) continue;
    if (longer || (name.size() == manifest.size() && name > manifest)) manifest = name;
  }
  if (manifest.empty()) return Error{"there is no manifest"};
  const auto trouble = trouble_of(manifest);
  if (!trouble.ok()) return Error{trouble.error()};
  if (!trouble.value().empty()) return Error{trouble.value()};
  const std::string fresh = path("CURRENT.new");
  rocksdb::Status status = rocksdb::WriteStringToFile(&env_, manifest + '\n', fresh, true);
  if (status.ok()) status = env_.RenameFile(fresh, path(kCurrent));
  if (!status.ok()) return Error{"cannot write " + path(kCurrent) + ": " + status.ToString()};
  return Done{};
}

// A database that was open once has its newest log or a newer one; else a log is missing.
void LogGuard::look_for_newest(const std::vector<uint64_t>& logs, const Note& note,
                               std::vector<Trouble>& found) const {
  const uint64_t newest = logs.empty() ? 0 : logs.back();
  if (newest == 0 && note.log == 0 && note.ended) return;  // a backup without a log
  const bool was_open = note.log != 0 || has_tables();
  if (newest >= note.log && (newest != 0 || !was_open)) return;
  Trouble gone;
  gone.log = note.log != 0 ? log_name(note.log) : "the log";
  gone.what = "is missing";
  gone.missing = true;
  found.push_back(gone);
}

Result<std::vector<LogGuard::Trouble>> LogGuard::look() const {
  std::vector<Trouble> found;
  const Note note = read_note();
  const std::vector<uint64_t> all = logs();
  for (const uint64_t number : all) {
    const std::string name = log_name(number);
    const Result<LogFinding> checked = check_log(env_, path(name));
    if (!checked.ok()) return Error{checked.error()};
    const LogFinding& log = checked.value();
    const bool ended = note.ended && note.log == number;
    if (log.state == LogState::kDamaged || (ended && log.state == LogState::kTorn)) {
      found.push_back({.log = name,
                       .what = "is damaged at byte " + std::to_string(log.offset) + " of " +
                               std::to_string(log.bytes),
                       .offset = log.offset,
                       .bytes = log.bytes,
                       .lost = log.bytes - log.offset});
    } else if (log.state == LogState::kTorn) {
      found.push_back({.log = name,
                       .what = "ends within a write at byte " + std::to_string(log.offset),
                       .torn = true,
                       .filled_up = log.filled_up,
                       .is_newest = number == all.back(),
                       .offset = log.offset,
                       .bytes = log.bytes,
                       .lost = log.bytes - log.offset});
    } else if (ended && log.bytes != note.bytes) {
      found.push_back({.log = name,
                       .what = "has " + std::to_string(log.bytes) + " bytes and had " +
                               std::to_string(note.bytes) + " when the server stopped",
                       .offset = log.bytes,
                       .bytes = log.bytes,
                       .lost = note.bytes - std::min(note.bytes, log.bytes)});
    }
  }
  look_for_newest(all, note, found);
  return found;
}

// Of a damaged manifest nothing is left out: which tables are in use would be a guess.
Error LogGuard::damaged(const std::string& what) const {
  return {"the database in " + dir_ + " is damaged: " + what +
          (what.starts_with(kManifest) ? "; start with a backup, --recover cannot mend this"
                                       : recover_advice())};
}

Status LogGuard::check() const {
  auto trouble_of_manifest = manifest_trouble();
  if (!trouble_of_manifest.ok()) return Error{trouble_of_manifest.error()};
  if (!trouble_of_manifest->empty()) return damaged(*trouble_of_manifest);
  auto found = look();
  if (!found.ok()) return Error{found.error()};
  for (const Trouble& trouble : *found) {
    if (!trouble.torn) return damaged(trouble.log + " " + trouble.what);
  }
  for (const Trouble& trouble : *found) {
    if (!trouble.filled_up) continue;
    if (Status done = cut(trouble); !done.ok()) return done;
  }
  return Done{};
}

Status LogGuard::cut(const Trouble& trouble) const {
  const rocksdb::Status status = cut_file(env_, path(trouble.log), trouble.offset);
  if (!status.ok()) return Error{"cannot cut " + path(trouble.log) + ": " + status.ToString()};
  return Done{};
}

Status LogGuard::set_aside(const Trouble& trouble, std::string& copy) const {
  if (trouble.offset == trouble.bytes) return Done{};  // all there is stays
  const std::string log = path(trouble.log);
  copy = log + ".damaged";
  for (int i = 2; env_.FileExists(copy).ok(); ++i) copy = log + ".damaged" + std::to_string(i);
  std::string bytes;
  rocksdb::Status status = rocksdb::ReadFileToString(&env_, log, &bytes);
  if (status.ok()) status = rocksdb::WriteStringToFile(&env_, bytes, copy, true);
  const uint64_t kept = std::min(trouble.offset + kTornBytes, trouble.bytes);
  if (status.ok()) status = cut_file(env_, log, kept);
  if (!status.ok()) return Error{"cannot set " + log + " aside: " + status.ToString()};
  return Done{};
}

Result<LogGuard::Recovery> LogGuard::recover() const {
  auto found = look();
  if (!found.ok()) return Error{found.error()};
  Recovery recovery;
  auto manifest = manifest_trouble();
  if (!manifest.ok()) return Error{manifest.error()};
  if (!manifest->empty()) {
    const bool of_current = manifest->starts_with("CURRENT");
    std::string name;
    if (!of_current || !remake_current(name).ok()) return damaged(*manifest);
    recovery.lost.push_back(*manifest + ": it is made again and names " + name +
                            ", and nothing is lost");
  }
  for (const Trouble& trouble : *found) {
    auto line = leave_out(trouble);
    if (!line.ok()) return Error{line.error()};
    if (line->empty()) continue;
    recovery.cut = true;
    recovery.lost.push_back(std::move(line).value());
  }
  return recovery;
}

// What a crash has cut off of the newest log is no loss. An older log that is cut where it is torn
// would look whole to RocksDB, which would go on with the newer ones.
Result<std::string> LogGuard::leave_out(const Trouble& trouble) const {
  if (trouble.missing) return trouble.log + " " + trouble.what + ": what was written to it is lost";
  if (trouble.torn && trouble.is_newest) {
    if (!trouble.filled_up) return std::string();
    Status done = cut(trouble);
    return done.ok() ? Result<std::string>(std::string()) : Error{done.error()};
  }
  std::string copy;
  if (Status aside = set_aside(trouble, copy); !aside.ok()) return Error{aside.error()};
  return trouble.log + " " + trouble.what + ": the writes in its last " +
         std::to_string(trouble.lost) +
         " bytes are lost, and those of newer logs that build on them" +
         (copy.empty() ? "" : "; a copy is kept as " + copy);
}

}  // namespace rubato::kv
