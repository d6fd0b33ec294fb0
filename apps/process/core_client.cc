// SPDX-License-Identifier: Apache-2.0
#include "process/core_client.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/timespec.h"
#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr Nanos kRetry = Nanos::seconds(1);
constexpr Nanos kPatience = Nanos::seconds(10);  // with a manager that does not answer
// A quiet server reports so many times less often, in steps of two.
constexpr int64_t kMostQuiet = 16;
constexpr Nanos kLeastInterval = Nanos::micros(100);
constexpr Nanos kMostInterval = Nanos::seconds(1);

Result<CoreJoin> join_of(const SchedulerOptions& options) {
  CoreJoin join;
  std::string settings;
  for (const auto& [name, value] : options.cores_settings) {
    settings += name + "=" + value + "\n";
  }
  if (settings.size() >= join.settings.size() || options.cores.size() >= join.allocator.size()) {
    return Error{"the settings of the allocator of cores are longer than " +
                 std::to_string(join.settings.size() - 1) + " bytes"};
  }
  join.guaranteed = options.guaranteed_cores;
  join.limit = options.workers;
  put_text(join.allocator, options.cores);
  put_text(join.settings, settings);
  return join;
}

// True: something has come, or the end.
bool readable(const Fd& from, int wake, Nanos longest) {
  std::array<pollfd, 2> watched{{{from.get(), POLLIN, 0}, {wake, POLLIN, 0}}};
  const timespec limit = timespec_of(longest);
  const int ready = ::ppoll(watched.data(), watched.size(), &limit, nullptr);
  return ready > 0 && watched[0].revents != 0;
}

}  // namespace

CoreClient::CoreClient(std::string path, Runtime& runtime)
    : path_(std::move(path)), runtime_(runtime), wake_(::eventfd(0, EFD_CLOEXEC)) {}

Result<std::unique_ptr<CoreClient>> CoreClient::join(const std::string& path, Runtime& runtime,
                                                     bool must_serve) {
  std::unique_ptr<CoreClient> client(new CoreClient(path, runtime));
  if (!client->wake_.valid()) return Error{"--cores-manager: no eventfd is left"};
  if (must_serve) {
    client->enter_again();
  } else if (Status entered = client->enter(); !entered.ok()) {
    return Error{"--cores-manager: " + entered.error()};
  }
  client->thread_ = std::jthread([c = client.get()](const std::stop_token& end) { c->serve(end); });
  return client;
}

CoreClient::~CoreClient() {
  thread_.request_stop();
  constexpr uint64_t kOnce = 1;
  static_cast<void>(!::write(wake_.get(), &kOnce, sizeof kOnce));
}

// Leaves manager_ valid only if the manager has given an order.
Status CoreClient::enter() {
  const Result<CoreJoin> join = join_of(runtime_.scheduler_options());
  if (!join.ok()) return Error{join.error()};
  Result<Fd> manager = connect_to_cores(path_);
  if (!manager.ok()) return Error{manager.error()};
  const std::string at = "the manager of cores at '" + path_ + "' ";
  CoreBytes bytes;
  CoreText refusal;
  if (!send_message(*manager, join.value()) || !readable(*manager, wake_.get(), kPatience) ||
      bytes.receive(*manager) != CoreBytes::Came::kMessage) {
    return Error{at + "gives no answer"};
  }
  if (bytes.read(refusal)) return Error{at + "refuses: " + text_of(refusal.text)};
  if (!bytes.read(order_)) return Error{at + "speaks another version"};
  manager_ = std::move(*manager);
  joined_.store(true, std::memory_order_relaxed);
  obeyed_ = 0;  // a new manager counts from the start
  quiet_ = 1;
  ++joins_;
  return Done{};
}

void CoreClient::serve(const std::stop_token& ending) {
  while (!ending.stop_requested()) {
    if (!manager_.valid()) {
      wait(kRetry);
      if (ending.stop_requested() || !enter_again()) continue;
    }
    report();
    const Nanos interval = std::clamp(Nanos(order_.interval_ns), kLeastInterval, kMostInterval);
    if (readable(manager_, wake_.get(), interval * quiet_) && !obey()) lose_manager();
  }
}

// Tells each cause of a failure once.
bool CoreClient::enter_again() {
  const Status entered = enter();
  const std::string cause = entered.ok() ? "" : entered.error();
  if (entered.ok()) {
    log_line(LogLevel::kInfo, LogEvent::kState, "a manager of cores is there again");
  } else if (cause != cause_) {
    log_line(LogLevel::kWarning, LogEvent::kState, "cannot join: " + cause);
  }
  cause_ = cause;
  return entered.ok();
}

void CoreClient::lose_manager() {
  manager_.reset();
  joined_.store(false, std::memory_order_relaxed);
  runtime_.manage_cores(std::nullopt, false);
  log_line(LogLevel::kWarning, LogEvent::kState,
           "the manager of cores has gone: the server keeps the cores that it has",
           {{"cores", order_.cores}});
}

// Takes the last order that has come. False: there is no manager any more.
bool CoreClient::obey() {
  for (CoreBytes bytes;;) {
    const CoreBytes::Came came = bytes.receive(manager_);
    if (came == CoreBytes::Came::kNothing) return true;
    if (came == CoreBytes::Came::kEnd || !bytes.read(order_)) return false;
    ++orders_;
  }
}

void CoreClient::report() {
  const bool fresh = order_.number != obeyed_;
  const overload::CoreSignals seen = runtime_.manage_cores(order_.cores, fresh);
  obeyed_ = order_.number;
  CoreReportMessage message;
  message.order = obeyed_;
  message.cores = seen.cores;
  message.parked_has_work = seen.parked_has_work ? 1 : 0;
  message.max_delay_ns = seen.max_delay.count();
  message.mean_delay_ns = seen.mean_delay.count();
  message.busy = seen.busy;
  if (send_message(manager_, message)) ++reports_;  // else the next one tells
  const bool quiet = !fresh && seen.busy == 0 && seen.max_delay == Nanos();
  quiet_ = quiet ? std::min(quiet_ * 2, kMostQuiet) : 1;
}

void CoreClient::wait(Nanos longest) const {
  pollfd watched{wake_.get(), POLLIN, 0};
  const timespec limit = timespec_of(longest);
  ::ppoll(&watched, 1, &limit, nullptr);
}

void CoreClient::expose(OpenMetrics& out) const {
  out.family("rubato_cores_manager_joined", "gauge",
             "1: a manager gives it its cores; 0: none is there");
  out.gauge(joined_.load(std::memory_order_relaxed) ? 1 : 0);
  out.family("rubato_cores_manager_joins", "counter", "Times that it joined a manager of cores");
  out.counter(joins_.value());
  out.family("rubato_cores_manager_orders", "counter", "Orders of the manager that came later");
  out.counter(orders_.value());
  out.family("rubato_cores_manager_reports", "counter", "Reports that the manager was sent");
  out.counter(reports_.value());
}

}  // namespace rubato
