// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/log.h"

namespace rubato {
namespace {

constexpr std::chrono::milliseconds kPeriod{10};  // rings of 16384 last for 1.6 M records/s

}  // namespace

Recording::~Recording() { RUBATO_CHECK(!thread_.joinable() && !open_); }

void Recording::close() {
  static_cast<void>(record(false));
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status Recording::record(bool wanted) {
  const std::scoped_lock lock(mutex_);
  return record_locked(wanted);
}

Status Recording::end_whole() {
  const std::scoped_lock lock(mutex_);
  static_cast<void>(record_locked(false));
  return last_;
}

// The thread comes first: if there can be none, nothing has begun.
Status Recording::record_locked(bool wanted) {
  if (wanted == open_) return Done{};
  if (wanted && !thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& none) {
      return Error{std::string("no thread can be started: ") + none.code().message()};
    }
  }
  last_ = wanted ? begin() : end();
  set_open(wanted && last_.ok());
  wake_.notify_one();
  return last_;
}

void Recording::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!open_) {
      wake_.wait(lock, [this] { return stopping_ || open_; });
    } else {
      wake_.wait_for(lock, kPeriod, [this] { return stopping_; });
      if (open_ && !collect(last_)) set_open(false);
    }
  }
}

std::vector<std::string> names_of(uint32_t types,
                                  const std::function<std::string(uint32_t)>& type_name) {
  std::vector<std::string> names;
  for (uint32_t type = 0; type < types; ++type) {
    const std::string name = type_name(type);
    names.push_back(name.empty() ? "type " + std::to_string(type) : name);
  }
  return names;
}

Result<int> make_file_anew(const std::string& path) {
  struct stat info {};
  int fd = -1;
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    errno = EINVAL;
  } else if (::unlink(path.c_str()) == 0 || errno == ENOENT) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  }
  if (fd < 0) return Error{"cannot write '" + path + "': " + std::strerror(errno)};
  return fd;
}

Status set_file_aside(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return Done{};
  const auto name_of = [&](int number) {
    return number == 0 ? path : path + "." + std::to_string(number);
  };
  int number = 1;
  while (number < kMostAside && ::lstat(name_of(number).c_str(), &info) == 0) ++number;
  for (; number > 0; --number) {
    const std::string from = name_of(number - 1), to = name_of(number);
    if (std::rename(from.c_str(), to.c_str()) == 0) continue;
    return Error{"cannot rename '" + from + "' to '" + to + "': " + std::strerror(errno)};
  }
  log_line(LogLevel::kInfo, LogEvent::kProfile,
           "the file of the server before is kept", {{"file", path}, {"as", name_of(1)}});
  return Done{};
}

}  // namespace rubato
