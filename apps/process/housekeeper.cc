// SPDX-License-Identifier: Apache-2.0
#include "process/housekeeper.h"

#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "mechanism/clock/clock.h"
#include "runtime/overload_exposition.h"
#include "runtime/shutdown.h"

namespace rubato {
namespace {

constexpr Nanos kPeriod = Nanos::seconds(1);
constexpr Nanos kStall = Nanos::seconds(1);  // and then each time that it is ten times as long

// Big replies come and go all the time. Without this setting the allocator gives their pages back
// to the kernel after each and faults them in again for the next, which cannot be preempted. Under
// a limit, a quarter of which is for the allocator, less is kept: a freed block of a heap stays
// with the process as long as a block behind it is in use. What may be kept is so for each of the
// allocator's arenas, of which every worker has one.
void keep_freed_memory(uint64_t limit_bytes, uint32_t workers) {
  constexpr uint64_t kKept = uint64_t{64} << 20;
  constexpr uint64_t kInHeap = uint64_t{4} << 20;          // larger blocks come from the kernel
  constexpr uint64_t kLeastInHeap = uint64_t{128} << 10;  // as glibc begins
  const uint64_t limit = limit_bytes == 0 ? UINT64_MAX : limit_bytes;
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(std::min(kKept, limit / 16 / workers)));
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(std::clamp(limit / 512, kLeastInHeap, kInHeap)));
}

// Written by the handler, which may run on any thread.
std::atomic<int> g_wake{-1};
std::atomic<bool> g_hangup{false};
std::atomic<bool> g_asked{false};

void wake(int fd) {
  constexpr uint64_t kOnce = 1;
  static_cast<void>(!::write(fd, &kOnce, sizeof kOnce));
}

void on_signal(int signal) {
  const int interrupted = errno;
  (signal == SIGHUP ? g_hangup : g_asked).store(true);
  wake(g_wake.load());
  errno = interrupted;
}

uint64_t refusals(const RuntimeStats& stats, Refusal why) {
  uint64_t sum = 0;
  for (const uint64_t of_class : stats.refusals[static_cast<size_t>(why)]) sum += of_class;
  return sum;
}

int64_t millis(Nanos time) { return time.count() / 1'000'000; }

}  // namespace

Result<std::unique_ptr<Housekeeper>> Housekeeper::start(Runtime& runtime, Datapath& datapath,
                                                        Hooks hooks) {
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Error{std::string("no eventfd: ") + std::strerror(errno)};
  return std::unique_ptr<Housekeeper>(
      new Housekeeper(std::move(wake), runtime, datapath, std::move(hooks)));
}

Housekeeper::Housekeeper(Fd wake, Runtime& runtime, Datapath& datapath, Hooks hooks)
    : wake_(std::move(wake)),
      runtime_(runtime),
      datapath_(datapath),
      hooks_(std::move(hooks)),
      period_(manager_.watchdog() > Nanos() ? std::min(kPeriod, manager_.watchdog() / 2) : kPeriod),
      limit_bytes_(hooks_.memory != nullptr ? hooks_.memory->limit() : 0),
      report_at_(runtime.options().workers, kStall) {
  keep_freed_memory(limit_bytes_, runtime_.options().workers);
  g_wake.store(wake_.get());
  handle_signals();
  thread_ = std::thread([this] { keep(); });
}

void Housekeeper::end() {
  if (!thread_.joinable()) return;
  ending_.store(true);
  wake(wake_.get());
  thread_.join();
}

Housekeeper::~Housekeeper() {
  end();
  for (size_t i = 0; i < kHandled.size(); ++i) {
    if (before_[i].sa_handler == SIG_DFL) sigaction(kHandled[i], &before_[i], nullptr);
  }
  g_wake.store(-1);
}

// The handler blocks all other signals, preemptions above all.
void Housekeeper::handle_signals() {
  for (size_t i = 0; i < kHandled.size(); ++i) {
    if (sigaction(kHandled[i], nullptr, &before_[i]) != 0) continue;
    if (before_[i].sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(kHandled[i], &action, nullptr);
  }
}

void Housekeeper::keep() {
  while (!ending_.load()) {
    wait();
    if (g_hangup.exchange(false)) reload();
    if (g_asked.exchange(false)) log_state();
    look_for_stop();
    if (now() >= next_look_) look();
  }
  look_at_traffic();
  look_for_stop();
}

void Housekeeper::wait() {
  pollfd woken{wake_.get(), POLLIN, 0};
  const Nanos patience = std::max(next_look_ - now(), Nanos());
  ::poll(&woken, 1, static_cast<int>(millis(patience)) + 1);
  uint64_t times = 0;
  static_cast<void>(!::read(wake_.get(), &times, sizeof times));
}

void Housekeeper::reload() {
  if (!hooks_.reload) {
    return log_line(LogLevel::kWarning, LogEvent::kSignal, "SIGHUP ignored: nothing is reloaded");
  }
  manager_.tell_reloading();
  hooks_.reload();
  manager_.tell("READY=1");
}

void Housekeeper::look() {
  next_look_ = now() + period_;
  const std::vector<WorkerActivity> workers = runtime_.activity();
  beat(workers);
  look_at_traffic();
  look_at_memory();
  look_for_stalls(workers);
  if (hooks_.each_second) hooks_.each_second();
  log_left_out();
}

void Housekeeper::look_for_stop() {
  if (runtime_.serving() || std::exchange(stop_reported_, true)) return;
  manager_.tell("STOPPING=1");
  log_line(LogLevel::kInfo, LogEvent::kStop, "no new requests; those in flight are finished");
}

void Housekeeper::look_at_traffic() {
  const RuntimeStats before = std::exchange(requests_, runtime_.stats());
  const DatapathStats flows = std::exchange(flows_, datapath_.stats());
  look_for_changes(before);
  if (requests_.requests > before.requests) {
    log_line(LogLevel::kDebug, LogEvent::kState, "requests were served",
             {{"requests", requests_.requests - before.requests},
              {"preemptions", requests_.preemptions - before.preemptions},
              {"connections", flows_.flows_open}});
  }
  const auto since = [&](Refusal why) { return refusals(requests_, why) - refusals(before, why); };
  const uint64_t refused = requests_.refused - before.refused;
  if (refused > 0) {
    log_line(LogLevel::kWarning, LogEvent::kRefused, "requests were refused",
             {{"requests", refused},
              {name_of(Refusal::kFull), since(Refusal::kFull)},
              {name_of(Refusal::kDelay), since(Refusal::kDelay)},
              {name_of(Refusal::kShare), since(Refusal::kShare)},
              {name_of(Refusal::kLimit), since(Refusal::kLimit)},
              {name_of(Refusal::kAbandoned), since(Refusal::kAbandoned)},
              {name_of(Refusal::kExpired), since(Refusal::kExpired)}});
  }
  const uint64_t turned_away = flows_.flows_refused - flows.flows_refused;
  const uint64_t unread = flows_.flows_overflowed - flows.flows_overflowed;
  const uint64_t too_much = flows_.flows_input_limit - flows.flows_input_limit;
  if (turned_away + unread + too_much == 0) return;
  log_line(LogLevel::kWarning, LogEvent::kConnections, "connections were refused or closed",
           {{"refused", turned_away}, {"replies_unread", unread}, {"request_too_large", too_much}});
}

void Housekeeper::look_at_memory() {
  MemoryAccount* const memory = hooks_.memory;
  if (memory == nullptr) return;
  const uint64_t limit = memory->limit();
  if (std::exchange(limit_bytes_, limit) != limit) {
    keep_freed_memory(limit, runtime_.options().workers);
    malloc_trim(0);  // all but the ends of the workers' heaps, which their next large block trims
  }
  memory->note_stacks(runtime_.stack_resident_bytes(!memory->has_plenty()));
}

void Housekeeper::look_for_changes(const RuntimeStats& before) const {
  if (requests_.changes > before.changes) {
    log_line(LogLevel::kInfo, LogEvent::kReload, "the scheduler has changed",
             {{"policy", runtime_.options().policy}, {"changes", requests_.changes}});
  }
  if (requests_.changes_given_up > before.changes_given_up) {
    log_line(LogLevel::kWarning, LogEvent::kReload,
             "the scheduler stays as it was: requests took too long to wait for",
             {{"policy", runtime_.options().policy},
              {"limit_ms", millis(Shutdown::kHoldLimit)}});
  }
}

void Housekeeper::look_for_stalls(const std::vector<WorkerActivity>& workers) {
  for (uint32_t i = 0; i < workers.size(); ++i) {
    if (workers[i].unpolled < kStall) report_at_[i] = kStall;
    if (workers[i].unpolled < report_at_[i]) continue;
    while (report_at_[i] <= workers[i].unpolled) report_at_[i] = report_at_[i] * 10;
    log_line(LogLevel::kWarning, LogEvent::kStalled,
             "a worker has not looked for other requests for long",
             {{"worker", i},
              {"ms", millis(workers[i].unpolled)},
              {"runs", workers[i].busy ? name_of_type(workers[i].type) : "nothing"}});
  }
}

// A worker that sleeps, or looked for requests a moment ago, is well, and helps those that are not.
void Housekeeper::beat(const std::vector<WorkerActivity>& workers) const {
  const Nanos limit = manager_.watchdog();
  if (limit == Nanos()) return;
  const bool progress = std::any_of(
      workers.begin(), workers.end(),
      [limit](const WorkerActivity& worker) { return worker.unpolled < limit / 2; });
  if (progress || !runtime_.serving()) manager_.tell("WATCHDOG=1");
}

std::string Housekeeper::name_of_type(uint32_t type) const {
  return hooks_.type_name ? hooks_.type_name(type) : std::to_string(type);
}

void Housekeeper::log_worker(uint32_t index, const WorkerActivity& worker) const {
  const auto say = [&](std::string_view does, std::initializer_list<LogField> fields) {
    log_line(LogLevel::kInfo, LogEvent::kState, does, fields);
  };
  if (worker.busy) {
    const std::string type = name_of_type(worker.type);
    return say("a worker runs a request", {{"worker", index},
                                           {"runs", type},
                                           {"for_ms", millis(worker.busy_for)},
                                           {"unpolled_ms", millis(worker.unpolled)},
                                           {"suspended", worker.suspended}});
  }
  say(worker.asleep ? "a worker sleeps" : "a worker looks for requests",
      {{"worker", index},
       {"unpolled_ms", millis(worker.unpolled)},
       {"suspended", worker.suspended}});
}

void Housekeeper::log_state() const {
  const RuntimeStats stats = runtime_.stats();
  const DatapathStats flows = datapath_.stats();
  log_line(LogLevel::kInfo, LogEvent::kState, runtime_.serving() ? "serving" : "not serving",
           {{"policy", runtime_.options().policy},
            {"requests", stats.requests},
            {"refused", stats.refused},
            {"cancelled", stats.cancelled},
            {"preemptions", stats.preemptions},
            {"overloaded_workers", stats.overloaded},
            {"fibers", stats.fibers},
            {"connections", flows.flows_open},
            {"connections_refused", flows.flows_refused},
            {"in_flight", datapath_.in_flight()}});
  const std::vector<WorkerActivity> workers = runtime_.activity();
  for (uint32_t i = 0; i < workers.size(); ++i) log_worker(i, workers[i]);
  for (const QueueDepth& queue : runtime_.queue_depths()) {
    if (queue.depth == 0) continue;
    log_line(LogLevel::kInfo, LogEvent::kState, "requests wait",
             {{"queue", queue.name}, {"index", queue.index}, {"depth", queue.depth}});
  }
}

}  // namespace rubato
