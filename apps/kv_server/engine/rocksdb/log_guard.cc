// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/log_guard.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "kv_server/engine/rocksdb/log_file.h"

namespace rubato::kv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoteName = "LIVE_LOG";
constexpr const char* kEnded = "ended";
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

}  // namespace

std::vector<uint64_t> LogGuard::logs() const {
  std::vector<uint64_t> found;
  std::error_code trouble;
  fs::directory_iterator it(dir_, trouble);
  for (; !trouble && it != fs::directory_iterator(); it.increment(trouble)) {
    const uint64_t number = log_number(it->path().filename().string());
    if (number != 0) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool LogGuard::has_tables() const {
  std::error_code trouble;
  fs::directory_iterator it(dir_, trouble);
  for (; !trouble && it != fs::directory_iterator(); it.increment(trouble)) {
    if (it->path().extension() == ".sst") return true;
  }
  return false;
}

LogGuard::Note LogGuard::read_note() const {
  Note note;
  std::string word;
  std::ifstream file(path(kNoteName));
  if (!(file >> note.log)) return {};
  note.ended = file >> word >> note.bytes && word == kEnded;
  return note;
}

// Replaces the note only by a complete new one; if the disk is full the old note stays.
void LogGuard::write_note(const Note& note) const {
  const std::string fresh = path(std::string(kNoteName) + ".new");
  std::ofstream file(fresh, std::ios::trunc);
  file << note.log;
  if (note.ended) file << ' ' << kEnded << ' ' << note.bytes;
  file << '\n';
  file.close();
  std::error_code trouble;
  if (file) {
    fs::rename(fresh, path(kNoteName), trouble);
  } else {
    fs::remove(fresh, trouble);
  }
}

void LogGuard::note_newest() {
  const std::lock_guard guard(mutex_);
  const std::vector<uint64_t> all = logs();
  if (all.empty() || all.back() == newest_) return;
  newest_ = all.back();
  write_note({newest_, false, 0});
}

void LogGuard::note_clean_end() {
  const std::lock_guard guard(mutex_);
  const std::vector<uint64_t> all = logs();
  std::error_code trouble;
  if (all.empty() || all.back() != newest_) return;
  const uint64_t bytes = fs::file_size(path(log_name(all.back())), trouble);
  if (!trouble) write_note({all.back(), true, bytes});
}

// A database that was open once has its newest log or a newer one; else a log is missing.
void LogGuard::look_for_newest(const std::vector<uint64_t>& logs, const Note& note,
                               std::vector<Trouble>& found) const {
  const uint64_t newest = logs.empty() ? 0 : logs.back();
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
    const Result<LogFinding> checked = check_log(path(name));
    if (!checked.ok()) return Error{checked.error()};
    const LogFinding& log = checked.value();
    const bool ended = note.ended && note.log == number;
    if (log.state == LogState::kDamaged || (ended && log.state == LogState::kTorn)) {
      found.push_back({name, "is damaged at byte " + std::to_string(log.offset) + " of " +
                                 std::to_string(log.bytes),
                       false, false, log.offset, log.bytes, log.bytes - log.offset});
    } else if (log.filled_up) {
      found.push_back({name, "", false, true, log.offset, log.bytes, 0});
    } else if (ended && log.bytes != note.bytes) {
      found.push_back({name, "has " + std::to_string(log.bytes) + " bytes and had " +
                                 std::to_string(note.bytes) + " when the server stopped",
                       false, false, log.bytes, log.bytes,
                       note.bytes - std::min(note.bytes, log.bytes)});
    }
  }
  look_for_newest(all, note, found);
  return found;
}

Status LogGuard::check() const {
  auto found = look();
  if (!found.ok()) return Error{found.error()};
  for (const Trouble& trouble : *found) {
    if (trouble.filled_up) continue;
    return Error{"the database in " + dir_ + " is damaged: " + trouble.log + " " + trouble.what +
                 "; --recover goes on with what can be read, and says what is lost"};
  }
  for (const Trouble& trouble : *found) {
    if (Status done = cut(trouble); !done.ok()) return done;
  }
  return Done{};
}

Status LogGuard::cut(const Trouble& trouble) const {
  std::error_code problem;
  fs::resize_file(path(trouble.log), trouble.offset, problem);
  if (problem) return Error{"cannot cut " + path(trouble.log) + ": " + problem.message()};
  return Done{};
}

Status LogGuard::set_aside(const Trouble& trouble, std::string& copy) const {
  if (trouble.offset == trouble.bytes) return Done{};  // all there is stays
  std::error_code problem;
  const std::string log = path(trouble.log);
  copy = log + ".damaged";
  for (int i = 2; fs::exists(copy); ++i) copy = log + ".damaged" + std::to_string(i);
  fs::copy_file(log, copy, problem);
  if (!problem) fs::resize_file(log, std::min(trouble.offset + kTornBytes, trouble.bytes), problem);
  if (problem) return Error{"cannot set " + log + " aside: " + problem.message()};
  return Done{};
}

Result<std::vector<std::string>> LogGuard::recover() const {
  auto found = look();
  if (!found.ok()) return Error{found.error()};
  std::vector<std::string> lost;
  for (const Trouble& trouble : *found) {
    if (trouble.missing) {
      lost.push_back(trouble.log + " " + trouble.what + ": what was written to it is lost");
      continue;
    }
    if (trouble.filled_up) {
      if (Status done = cut(trouble); !done.ok()) return Error{done.error()};
      continue;
    }
    std::string copy;
    Status aside = set_aside(trouble, copy);
    if (!aside.ok()) return Error{aside.error()};
    lost.push_back(trouble.log + " " + trouble.what + ": the writes in its last " +
                   std::to_string(trouble.lost) +
                   " bytes are lost, and those of newer logs that build on them" +
                   (copy.empty() ? "" : "; a copy is kept as " + copy));
  }
  return lost;
}

}  // namespace rubato::kv
