// SPDX-License-Identifier: Apache-2.0
#include "load/core_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <string>

namespace rubato::load {
namespace {

Nanos own_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos::seconds(time.tv_sec) + Nanos(time.tv_nsec);
}

// False once the thread has ended.
bool read_times(const Fd& file, ScheduleTimes& times) {
  std::array<char, 128> text;
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return size > 0 && parse_schedstat({text.data(), static_cast<size_t>(size)}, times);
}

}  // namespace

bool parse_schedstat(std::string_view text, ScheduleTimes& times) {
  std::array<int64_t, 3> figures{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int64_t& figure : figures) {
    while (at != end && *at == ' ') ++at;
    const auto [stop, problem] = std::from_chars(at, end, figure);
    if (problem != std::errc()) return false;
    at = stop;
  }
  times = {Nanos(figures[0]), Nanos(figures[1]), figures[2]};
  return true;
}

Result<CoreWatch> CoreWatch::open(uint32_t server, bool sleeps) {
  CoreWatch watch;
  if (sleeps) {
    Fd own(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    if (!own.open()) return Error{"cannot read when this thread runs (/proc/thread-self)"};
    watch.self_ = Thread{std::move(own), {}, {}};
  }
  if (server == 0) return watch;
  const std::string folder = "/proc/" + std::to_string(server) + "/task";
  std::error_code problem;
  bool counted = false;  // kernels that do not count write zeros
  for (auto task = std::filesystem::directory_iterator(folder, problem);
       !problem && task != std::filesystem::directory_iterator(); task.increment(problem)) {
    if (watch.threads_.size() == kMaxWatched) break;
    Fd file(::open((task->path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC));
    ScheduleTimes times;
    if (!file.open() || !read_times(file, times)) continue;
    counted = counted || times.turns > 0;  // a young thread may have run for no time yet
    watch.threads_.push_back({std::move(file), {}, {}});
  }
  if (!counted) {
    return Error{"cannot read when threads of process " + std::to_string(server) + " run (" +
                 folder + "/*/schedstat)"};
  }
  return watch;
}

void CoreWatch::begin() {
  last_ = Nanos(0);
  cpu_ = own_cpu_time();
  const auto take = [](Thread& thread) {
    ScheduleTimes times;
    if (!read_times(thread.schedstat, times)) return;
    thread.ran = times.ran;
    thread.waited = times.waited;
  };
  for (Thread& thread : threads_) take(thread);
  if (self_) take(*self_);
}

void CoreWatch::keep_busy() {
  Nanos most;
  for (Thread& thread : threads_) {
    ScheduleTimes times{.ran = thread.ran, .waited = {}};
    read_times(thread.schedstat, times);
    thread.ran = times.ran - thread.ran;
    most = std::max(most, thread.ran);
  }
  std::erase_if(threads_, [most](const Thread& thread) {
    return thread.ran.seconds() < kBusyShare * most.seconds();
  });
}

void CoreWatch::poll(Nanos now, std::vector<Stall>& found) {
  if (self_) {
    note_wait(*self_, last_, now, found);
  } else {
    const Nanos cpu = own_cpu_time();
    const Nanos lost = (now - last_) - (cpu - cpu_);
    if (lost > kStallFloor) found.push_back({last_, now, lost});
    cpu_ = cpu;
  }
  for (Thread& thread : threads_) note_wait(thread, last_, now, found);
  last_ = now;
}

// A wait is counted when it is over: it may have begun before the last reading.
void CoreWatch::note_wait(Thread& thread, Nanos last, Nanos now, std::vector<Stall>& found) {
  ScheduleTimes times;
  if (!read_times(thread.schedstat, times)) return;
  const Nanos waited = times.waited - thread.waited;
  thread.waited = times.waited;
  if (waited > kStallFloor) found.push_back({last - waited, now, waited});
}

}  // namespace rubato::load
