// SPDX-License-Identifier: Apache-2.0
#include "process/best_effort.h"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/log.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/pin.h"

extern char** environ;

namespace rubato {
namespace {

constexpr auto kSampleEvery = std::chrono::seconds(1);

std::string fixed(double value, const char* format = "%.3f") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string first_word(const std::string& command) {
  const size_t start = command.find_first_not_of(" \t\n");
  if (start == std::string::npos) return {};
  return command.substr(start, command.find_first_of(" \t\n", start) - start);
}

// False for a word with quotes, variables and the like, which only the shell understands.
bool is_plain(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:";
  return word.find_first_not_of(kPlain) == std::string::npos;
}

// Asks the shell, which knows its own commands beside those of PATH.
bool shell_knows(const std::string& word) {
  std::string script = "command -v -- \"$1\" >/dev/null 2>&1";
  std::string name = "sh";
  std::string option = "-c";
  std::string argument = word;
  char* const arguments[] = {name.data(),     option.data(), script.data(),
                             name.data(), argument.data(),  nullptr};
  pid_t shell = 0;
  if (::posix_spawn(&shell, "/bin/sh", nullptr, nullptr, arguments, environ) != 0) return false;
  int status = 0;
  while (::waitpid(shell, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Status check(const std::string& command) {
  const std::string word = first_word(command);
  if (word.empty()) return Error{"best_effort: takes a command, got nothing"};
  if (is_plain(word) && !shell_knows(word)) {
    return Error{"best_effort: takes a command that can be run here, and '" + word +
                 "' is none"};
  }
  return Done{};
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "by signal " + std::to_string(WTERMSIG(status));
  return "with status " + std::to_string(WEXITSTATUS(status));
}

const char* name_of(uint32_t state) {
  switch (state) {
    case SupervisorStatus::kNotStarted: return "not_started";
    case SupervisorStatus::kRunning: return "running";
    case SupervisorStatus::kBetweenRuns: return "between_runs";
    default: return "over";
  }
}

}  // namespace

Result<BestEffortCommand> supervise(const BestEffortOptions& options, const std::string& name) {
  if (Status fits = check(options.command); !fits.ok()) return Error{fits.error()};
  SupervisorOptions supervised{options.command, options.restart, std::nullopt};
  std::string means = "SCHED_IDLE";
  if (!options.group) {
    means += " alone, as asked";
  } else if (auto group = IdleGroup::make(name); group.ok()) {
    means = std::string(group->means()) + " of " + group->folder();
    supervised.group = std::move(*group);
  } else {
    means += " alone: " + group.error();
  }
  auto supervisor = Supervisor::fork(supervised);
  if (!supervisor.ok()) {
    if (supervised.group) supervised.group->remove();
    return Error{"best_effort: " + supervisor.error()};
  }
  return BestEffortCommand{options.command, std::move(means), std::move(*supervisor)};
}

Result<std::unique_ptr<BestEffort>> BestEffort::prepare(const BestEffortOptions& options) {
  auto command = supervise(options);
  if (!command.ok()) return Error{command.error()};
  return std::unique_ptr<BestEffort>(new BestEffort(std::move(*command)));
}

BestEffort::BestEffort(BestEffortCommand command)
    : supervisor_(std::move(command.supervisor)),
      means_(std::move(command.means)),
      cpus_(static_cast<uint32_t>(std::max<size_t>(allowed_cpus().size(), 1))) {}

BestEffort::~BestEffort() { end(); }

void BestEffort::end() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void BestEffort::begin(const Runtime& runtime) {
  runtime_ = &runtime;
  take_sample();
  supervisor_.begin();
  watcher_ = std::thread([this] { watch(); });
}

void BestEffort::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kSampleEvery, [this] { return stopping_; })) {
    lock.unlock();
    take_sample();
    log_changes();
    lock.lock();
  }
}

void BestEffort::take_sample() {
  const Sample sample{now() - Instant(),
                      Nanos(supervisor_.status().cpu_ns.load(std::memory_order_relaxed)),
                      Nanos(static_cast<int64_t>(runtime_->stats().busy_ns))};
  const std::scoped_lock lock(mutex_);
  while (samples_.size() > 1 && sample.at - samples_[1].at >= kWindow) samples_.pop_front();
  samples_.push_back(sample);
}

void BestEffort::log_changes() {
  const SupervisorStatus& status = supervisor_.status();
  const uint32_t ends = status.ends.load(std::memory_order_relaxed);
  if (ends == std::exchange(reported_ends_, ends)) return;
  const std::string ended = how_it_ended(status.last_end.load(std::memory_order_relaxed));
  const bool over = status.state.load(std::memory_order_relaxed) == SupervisorStatus::kOver;
  const double pause_s =
      static_cast<double>(status.pause_ms.load(std::memory_order_relaxed)) / 1000;
  log_line(LogLevel::kWarning, LogEvent::kBestEffort,
           "the best-effort command ended " + ended + " (" + std::to_string(ends) + " so far); " +
               (over ? "it is not started again"
                     : "it starts again " + fixed(pause_s, "%.0f") + " s later"));
}

BestEffort::Shares BestEffort::shares() const {
  const std::scoped_lock lock(mutex_);
  if (samples_.size() < 2) return {};
  const Sample& from = samples_.front();
  const Sample& to = samples_.back();
  const double all = (to.at - from.at).seconds() * cpus_;
  const double left = all - (to.requests - from.requests).seconds();
  const double got = (to.command - from.command).seconds();
  return {all > 0 ? got / all : 0, left > 0 ? got / left : 0};
}

BestEffort::Lines BestEffort::lines() const {
  const SupervisorStatus& status = supervisor_.status();
  const Shares share = shares();
  Lines lines{
      {"best_effort_state", name_of(status.state.load(std::memory_order_relaxed))},
      {"best_effort_kept_back_by", means_},
      {"best_effort_share_of_cpus", fixed(share.of_machine)},
      {"best_effort_share_of_ideal", fixed(share.of_ideal)},
      {"best_effort_cpu_s",
       fixed(Nanos(status.cpu_ns.load(std::memory_order_relaxed)).seconds(), "%.2f")},
      {"best_effort_starts", std::to_string(status.starts.load(std::memory_order_relaxed))},
      {"best_effort_ends", std::to_string(status.ends.load(std::memory_order_relaxed))},
  };
  if (status.ends.load(std::memory_order_relaxed) > 0) {
    lines.emplace_back("best_effort_last_end",
                       how_it_ended(status.last_end.load(std::memory_order_relaxed)));
  }
  return lines;
}

void BestEffort::expose(OpenMetrics& out) const {
  const SupervisorStatus& status = supervisor_.status();
  const Shares share = shares();
  out.family("rubato_best_effort_cpu_seconds", "counter",
             "CPU time of the best-effort command and all it started.");
  out.counter_seconds(Nanos(status.cpu_ns.load(std::memory_order_relaxed)).seconds());
  out.family("rubato_best_effort_share_of_cpus", "gauge",
             "Its share of the CPUs that the server may use, of late.");
  out.gauge(share.of_machine);
  out.family("rubato_best_effort_share_of_ideal", "gauge",
             "Its share of the CPU time that requests left, of late.");
  out.gauge(share.of_ideal);
  out.family("rubato_best_effort_starts", "counter", "Times the command was started.");
  out.counter(status.starts.load(std::memory_order_relaxed));
  out.family("rubato_best_effort_ends", "counter", "Times it ended.");
  out.counter(status.ends.load(std::memory_order_relaxed));
}

}  // namespace rubato
