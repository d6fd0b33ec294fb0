// SPDX-License-Identifier: Apache-2.0
//
// Options of one server. Plain data, read once by Server::create, which checks all of it. Times are
// std::chrono, sizes bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

enum class Transport : uint32_t {
  kTcp = RUBATO_TCP,
  kLoopback = RUBATO_LOOPBACK,  // in this process, see LoopbackClient: for tests
};

// Who may say that a request is long, and so can be preempted.
enum class Classify : uint32_t {
  kFeedback = RUBATO_CLASSIFY_FEEDBACK,  // only the application (Synergy 5.1.2)
  kAge = RUBATO_CLASSIFY_AGE,            // and its age: whatever outlives a quantum is long
  kLearned = RUBATO_CLASSIFY_LEARNED,    // and what requests of its type and size took before
};

// Who looks at the clock while a request runs.
enum class Clock : uint32_t {
  kSelf = RUBATO_CLOCK_SELF,             // its worker, at checkpoints (SBB 4.3)
  kTimerCore = RUBATO_CLOCK_TIMER_CORE,  // a thread of the server (Synergy 5.1.3)
  kEmbedded = RUBATO_CLOCK_EMBEDDED,     // the program, by Server::poll_timer
};

// How a running request is preempted, see enum rubato_preempt.
enum class Preempt : uint32_t {
  kAuto = RUBATO_PREEMPT_AUTO,
  kNone = RUBATO_PREEMPT_NONE,
  kCheckpoint = RUBATO_PREEMPT_CHECKPOINT,
  kSignal = RUBATO_PREEMPT_SIGNAL,
  kTimer = RUBATO_PREEMPT_TIMER,
  kUintr = RUBATO_PREEMPT_UINTR,
  kKmod = RUBATO_PREEMPT_KMOD,
};

enum class Idle : uint32_t {
  kAdaptive = RUBATO_IDLE_ADAPTIVE,  // spin briefly, then sleep: a quiet server uses no CPU
  kSpin = RUBATO_IDLE_SPIN,          // never sleep: for isolated cores
};

// What an overloaded server does, see enum rubato_overload.
enum class Overload : uint32_t {
  kNone = RUBATO_OVERLOAD_NONE,
  kAqm = RUBATO_OVERLOAD_AQM,
};

struct Options {
  std::string policy = "synergy";               // `rubato policies` lists them
  std::map<std::string, std::string> settings;  // of the policy
  uint32_t workers = 0;  // 1 .. 256, one thread each; 0 = one for each CPU that it may use
  Classify classify = Classify::kAge;
  Clock clock = Clock::kSelf;
  Idle idle = Idle::kAdaptive;
  std::chrono::nanoseconds idle_spin = std::chrono::microseconds(50);
  bool pin = false;        // worker i runs on the allowed CPU number pin_first + i
  uint32_t pin_first = 0;
  size_t stack_bytes = size_t{64} * 1024;  // a request's stack, 16 KiB .. 64 MiB
  uint32_t max_fibers = 4096;              // preempted requests plus workers, up to 30000
  Transport transport = Transport::kTcp;
  std::string bind = "127.0.0.1";          // address or host name, "*" = all addresses
  uint32_t port = 0;                       // 0 = any free one, see Server::port
  uint32_t max_connections = 10000;        // more are closed and counted
  std::chrono::nanoseconds idle_timeout{};                // of a connection, zero = none
  size_t max_request_bytes = size_t{16} * 1024 * 1024;    // more is refused, and closed
  size_t max_reply_bytes = size_t{256} * 1024 * 1024;     // unread by one client, else closed
  std::chrono::nanoseconds drain_limit = std::chrono::seconds(10);
  std::string metrics_bind = "127.0.0.1";
  int32_t metrics_port = -1;    // /metrics, /healthz, /readyz; -1 = none, 0 = any free one
  // SIGTERM and SIGINT stop the server, a second one at once. Those that would end the process but
  // have no handler, SIGHUP, SIGUSR1, SIGUSR2 and SIGPIPE, do no harm.
  bool handle_signals = false;
  Preempt preempt = Preempt::kAuto;
  // Framing::kRpc: while requests wait for longer there are fewer credits, from twice that on they
  // are rejected.
  std::chrono::nanoseconds rpc_target_delay = std::chrono::milliseconds(1);
  uint32_t rpc_sessions_per_address = 0;  // 0 = as many as max_connections
  Overload overload = Overload::kNone;
  // Overload::kAqm: how long requests may wait for their turn, refused from twice that on.
  std::chrono::nanoseconds target_delay = std::chrono::milliseconds(3);
  // The same of long ones, also with Framing::kRpc; zero = as others, or eight times their own
  // service where they share a worker.
  std::chrono::nanoseconds target_delay_long{};
  std::string cores = "adaptive";  // or an allocator of cores, docs/CORES.md
  std::map<std::string, std::string> cores_set;  // of the allocator
  uint32_t guaranteed_cores = 1;   // workers that it leaves alone
  std::string agent_bind = "127.0.0.1";
  int32_t agent_port = -1;  // HAProxy's agent-check; -1 = none, 0 = any free one
};

namespace detail {

// "name=value" each. Points into itself.
struct Settings {
  void fill(const std::map<std::string, std::string>& from) {
    for (const auto& [name, value] : from) texts.push_back(name + "=" + value);
    for (const std::string& text : texts) pointers.push_back(text.c_str());
  }

  std::vector<std::string> texts;
  std::vector<const char*> pointers;
};

// Options as C has them. Points into `options` and itself, so it must not be moved.
struct COptions {
  explicit COptions(const Options& o) {
    settings.fill(o.settings);
    cores_set.fill(o.cores_set);
    rubato_options_init(&c, sizeof c);
    c.policy = o.policy.c_str();
    c.settings = settings.pointers.data();
    c.settings_count = settings.pointers.size();
    c.workers = o.workers;
    c.classify = static_cast<uint32_t>(o.classify);
    c.clock = static_cast<uint32_t>(o.clock);
    c.idle = static_cast<uint32_t>(o.idle);
    c.idle_spin_ns = o.idle_spin.count();
    c.pin = o.pin ? 1 : 0;
    c.pin_first = o.pin_first;
    c.stack_bytes = o.stack_bytes;
    c.max_fibers = o.max_fibers;
    c.transport = static_cast<uint32_t>(o.transport);
    c.bind = o.bind.c_str();
    c.port = o.port;
    c.max_connections = o.max_connections;
    c.idle_timeout_ns = o.idle_timeout.count();
    c.max_request_bytes = o.max_request_bytes;
    c.max_reply_bytes = o.max_reply_bytes;
    c.drain_limit_ns = o.drain_limit.count();
    c.metrics_bind = o.metrics_bind.c_str();
    c.metrics_port = o.metrics_port;
    c.handle_signals = o.handle_signals ? 1 : 0;
    c.preempt = static_cast<uint32_t>(o.preempt);
    c.rpc_target_delay_ns = o.rpc_target_delay.count();
    c.rpc_sessions_per_address = o.rpc_sessions_per_address;
    c.overload = static_cast<uint32_t>(o.overload);
    c.target_delay_ns = o.target_delay.count();
    c.target_delay_long_ns = o.target_delay_long.count();
    c.cores = o.cores.c_str();
    c.cores_set = cores_set.pointers.data();
    c.cores_set_count = cores_set.pointers.size();
    c.guaranteed_cores = o.guaranteed_cores;
    c.agent_bind = o.agent_bind.c_str();
    c.agent_port = o.agent_port;
  }
  COptions(const COptions&) = delete;
  COptions& operator=(const COptions&) = delete;

  Settings settings;
  Settings cores_set;
  rubato_options c;
};

}  // namespace detail

}  // namespace rubato::inline v1
