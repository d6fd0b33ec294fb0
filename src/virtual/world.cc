// SPDX-License-Identifier: Apache-2.0
#include "virtual/world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/check.h"
#include "mechanism/preempt/checkpoint.h"
#include "virtual/recorder.h"
#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

// The processor's counter is not virtual.
[[gnu::constructor]] void prepare_the_process() { setenv("RUBATO_CLOCK", "kernel", 1); }

// Null = nothing is written. Set before the world begins.
const std::string*& trace_path() {
  static const std::string* path = nullptr;
  return path;
}

void write_trace() {
  const std::string* path = std::exchange(trace_path(), nullptr);
  if (path == nullptr) return;
  const Outside outside;
  if (Recorder::of_process().write(*path)) {
    std::fprintf(stderr, "trace for ui.perfetto.dev: %s\n", path->c_str());
  }
}

void die_with_trace(int signal) {
  std::signal(signal, SIG_DFL);
  write_trace();
  std::raise(signal);
}

// How a body ends that does not return: by a failed check, mostly.
void write_trace_at_death() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    std::signal(signal, &die_with_trace);
  }
}

// For what the calling thread learns of others. Null outside.
Scheduler* in_turn() {
  Scheduler* scheduler = Scheduler::here();
  if (scheduler != nullptr) scheduler->take_turn();
  return scheduler;
}

bool run_body(const std::function<bool()>& body, const std::string& trace) {
  const char* const asked = std::getenv("RUBATO_TRACE");
  const std::string path = asked != nullptr ? asked : trace;
  trace_path() = path.empty() ? nullptr : &path;
  write_trace_at_death();
  const bool good = body();
  if (!good || asked != nullptr) write_trace();
  return good;
}

}  // namespace

WorldReport run(const WorldOptions& options, const std::function<void()>& body) {
  Scheduler scheduler(options);
  return scheduler.run(body);
}

// A thread of its own has memory of its own, which malloc begins anew: std::atomic::wait shares its
// waiters by address.
bool apart(const std::function<bool()>& body, const std::string& trace) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    bool good = false;
    std::thread([&] { good = run_body(body, trace); }).join();
    std::fflush(nullptr);
    ::_exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

bool within() { return Scheduler::here() != nullptr; }

void fail_memory(uint32_t one_in) {
  if (Scheduler* scheduler = Scheduler::here()) scheduler->fail_memory(one_in);
}

void fail(const char* what) {
  if (const Scheduler* scheduler = Scheduler::here()) scheduler->fail(what);
  check_failed(__FILE__, __LINE__, what);
}

uint32_t this_thread() {
  Scheduler* scheduler = Scheduler::here();
  return scheduler != nullptr ? scheduler->running().number : 0;
}

Instant waits_since(uint32_t thread) {
  const Scheduler* scheduler = in_turn();
  return scheduler != nullptr ? scheduler->waits_since(thread) : Instant::never();
}

Instant others_stalled_until() {
  const Scheduler* scheduler = in_turn();
  return scheduler != nullptr ? scheduler->others_stalled_until() : Instant();
}

void spend(Nanos time) {
  if (Scheduler* scheduler = Scheduler::here()) scheduler->compute(time);
}

int64_t spend_steps(Nanos step, int64_t most) {
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return most;
  int32_t& budget = rubato_checkpoint_budget;
  const int32_t before = budget;
  most = std::min(most, int64_t{std::max(before, 0)} + 1);
  const int64_t steps = scheduler->compute(step, most, &budget);
  if (budget == before) budget = static_cast<int32_t>(before - (steps - 1));
  return steps;
}

Instant clock() {
  Scheduler* scheduler = Scheduler::here();
  return scheduler != nullptr ? scheduler->running().clock : Instant();
}

Nanos faults_so_far() {
  const Scheduler* scheduler = in_turn();
  return scheduler != nullptr ? scheduler->faults() : Nanos();
}

Instant faults_over() {
  const Scheduler* scheduler = in_turn();
  return scheduler != nullptr ? scheduler->faults_over() : Instant();
}

WorldCounts counts_so_far() {
  const Scheduler* scheduler = in_turn();
  return scheduler != nullptr ? scheduler->counts() : WorldCounts();
}

}  // namespace rubato::virt
