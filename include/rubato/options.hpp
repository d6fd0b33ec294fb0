// SPDX-License-Identifier: Apache-2.0
//
// Options of one server. Plain data, with no lock: Server::create reads the options once and checks
// every one. Times are std::chrono durations, sizes are in bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// generated: c++-enums
// What makes a request long, so that it may be preempted.
enum class Classify : uint32_t {
  kFeedback = RUBATO_CLASSIFY_FEEDBACK,  // the application alone, at any time
  kAge = RUBATO_CLASSIFY_AGE,  // or it outlives a quantum
  kLearned = RUBATO_CLASSIFY_LEARNED,  // or its kind did so before
  kDeclared = RUBATO_CLASSIFY_DECLARED,  // the application alone, when the request arrives
};

// How long requests are preempted; `rubato doctor` says what works here.
enum class Preempt : uint32_t {
  kAuto = RUBATO_PREEMPT_AUTO,  // the best that works: uintr, kmod, else checkpoint
  kNone = RUBATO_PREEMPT_NONE,  // a request runs to its end
  kCheckpoint = RUBATO_PREEMPT_CHECKPOINT,  // at checkpoints, where its code has them
  kSignal = RUBATO_PREEMPT_SIGNAL,  // at any instruction, as all below: a timer core sends a signal
  kTimer = RUBATO_PREEMPT_TIMER,  // a timer of its worker's own
  kUintr = RUBATO_PREEMPT_UINTR,  // a timer core sends a user interrupt
  kKmod = RUBATO_PREEMPT_KMOD,  // a timer core has a kernel module interrupt the CPU
};

// Which clock ends the slices of a long request.
enum class PreemptionClock : uint32_t {
  kSelf = RUBATO_PREEMPTION_CLOCK_SELF,  // its own worker, at checkpoints
  kTimerCore = RUBATO_PREEMPTION_CLOCK_TIMER_CORE,  // a thread of the server
  kEmbedded = RUBATO_PREEMPTION_CLOCK_EMBEDDED,  // the program around the library, by polling
};

// What workers do that have nothing to do.
enum class Idle : uint32_t {
  kAdaptive = RUBATO_IDLE_ADAPTIVE,  // spin, then sleep
  kSpin = RUBATO_IDLE_SPIN,  // never sleep: for isolated cores
};

// What an overloaded server does.
enum class Overload : uint32_t {
  kNone = RUBATO_OVERLOAD_NONE,  // it serves as long as queues have room
  // it refuses requests that have waited longer than twice the target delay
  kAqm = RUBATO_OVERLOAD_AQM,
  // clients may have as many requests underway as they were given credits, by Rubato RPC
  kCredits = RUBATO_OVERLOAD_CREDITS,
  // it limits the requests inside by how their latency compares with the least one, as Envoy does
  kGradient = RUBATO_OVERLOAD_GRADIENT,
  // it refuses the least urgent requests, a share that a PID controller finds from the flow through
  // the queue, as Uber does
  kCinnamon = RUBATO_OVERLOAD_CINNAMON,
  // it refuses requests below a priority that falls while they wait for longer than the target
  // delay, as WeChat does
  kDagor = RUBATO_OVERLOAD_DAGOR,
  // it limits the requests inside by how their latency compares with the usual one, as Netflix does
  kGradient2 = RUBATO_OVERLOAD_GRADIENT2,
};

// Where requests come from.
enum class Transport : uint32_t {
  kTcp = RUBATO_TRANSPORT_TCP,  // kernel sockets
  kLoopback = RUBATO_TRANSPORT_LOOPBACK,  // in this process, for tests
};
// end of c++-enums

struct Options {
  // generated: c++-fields
  // Scheduling policy, see `rubato policies`.
  std::string policy = "synergy";
  // Settings of the policy.
  std::map<std::string, std::string> set{};
  // Worker threads; 0 = one for each CPU that the process may use, by its affinity and the CPU
  // quota of its control group; 0 .. 256.
  uint32_t workers = 0;
  // What makes a request long, so that it may be preempted.
  Classify classify = Classify::kAge;
  // Which clock ends the slices of a long request.
  PreemptionClock preemption_clock = PreemptionClock::kSelf;
  // What workers do that have nothing to do.
  Idle idle = Idle::kAdaptive;
  // How long an adaptive worker spins before it sleeps; beside a best-effort command 10us unless
  // given; 0ns .. 1s.
  std::chrono::nanoseconds idle_spin = std::chrono::microseconds(50);
  // Run worker i on the i-th allowed CPU; beside a best-effort command also unless told, where
  // there is a worker for each CPU.
  bool pin = false;
  // First CPU that is used by `pin`, as an index; 0 .. 4096.
  uint32_t pin_first = 0;
  // Stack that a request runs on; 16KiB .. 64MiB.
  size_t stack_bytes = size_t{16} << 20;
  // Requests that can be suspended at once, and one for each worker; 2 .. 30000.
  uint32_t max_fibers = 4096;
  // Where requests come from.
  Transport transport = Transport::kTcp;
  // Address or host name to listen on; * = all addresses.
  std::string bind = "127.0.0.1";
  // TCP port; 0 = any free one; 0 .. 65535.
  uint32_t port = 0;
  // Connections at most, fewer where the system allows no more; what comes beyond is closed and
  // counted; 1 .. 1000000.
  uint32_t max_connections = 10000;
  // Connections are closed that have been idle for so long; 0 = never; 0ns .. 2147483648s.
  std::chrono::nanoseconds idle_timeout = std::chrono::nanoseconds(0);
  // A larger request is refused, and its connection closed; 1B .. 1GiB.
  size_t max_request_bytes = size_t{16} << 20;
  // Replies that wait to be read by one client; with more its connection is closed; 1B .. 1GiB.
  size_t max_reply_bytes = size_t{256} << 20;
  // Longest time between the order to stop and the end, for requests in flight; 0ns .. 3600s.
  std::chrono::nanoseconds drain_limit = std::chrono::seconds(10);
  // Address of the metrics port.
  std::string metrics_bind = "127.0.0.1";
  // Port of /metrics, /state, /plan, /healthz and /readyz; 0 = any free one; -1 = none, 0 .. 65535.
  int32_t metrics_port = -1;
  // SIGTERM and SIGINT stop the server, a second one at once; those that would end the process but
  // have no handler, SIGHUP, SIGUSR1, SIGUSR2 and SIGPIPE, do no harm.
  bool handle_signals = false;
  // How long requests are preempted; `rubato doctor` says what works here.
  Preempt preempt = Preempt::kAuto;
  // In place of target_delay, with RPC framing: while requests wait for longer there are fewer
  // credits, from twice that on they are refused; 1us .. 60s.
  std::chrono::nanoseconds rpc_target_delay = std::chrono::milliseconds(1);
  // What an overloaded server does.
  Overload overload = Overload::kNone;
  // Workers that an allocator leaves alone, at least 1 in a server; 0 .. 256.
  uint32_t guaranteed_cores = 1;
  // How long requests may wait for their turn; 1us .. 60s.
  std::chrono::nanoseconds target_delay = std::chrono::milliseconds(3);
  // The same of long requests; 0 = as others, or eight times their own service where they share a
  // worker; 0ns .. 60s.
  std::chrono::nanoseconds target_delay_long = std::chrono::nanoseconds(0);
  // Which workers have a core: adaptive (all, and they sleep when idle), or what an allocator
  // leaves them, see `rubato options`.
  std::string cores = "adaptive";
  // Settings of the allocator of cores.
  std::map<std::string, std::string> cores_set{};
  // Address of the agent port.
  std::string agent_bind = "127.0.0.1";
  // Port that tells load balancers the server's weight, by HAProxy's agent-check; 0 = any free one;
  // -1 = none, 0 .. 65535.
  int32_t agent_port = -1;
  // RPC sessions at most from one client address; 0 = as many as max_connections; 0 .. 1000000.
  uint32_t sessions_per_address = 0;
  // Requests that wait at one worker at most; 64 .. 1048576.
  uint32_t inbox_capacity = 16384;
  // Requests that wait in one global queue at most; 64 .. 1048576.
  uint32_t shared_capacity = 16384;
  // Waits are overload once a worker has not run out of work for so long (aqm); 0ns .. 60s.
  std::chrono::nanoseconds overload_patience = std::chrono::milliseconds(100);
  // Overload is over when nobody was late for so long (aqm); 0ns .. 60s.
  std::chrono::nanoseconds overload_calm = std::chrono::milliseconds(100);
  // The same where a worker runs out of work again (aqm); 0ns .. 60s.
  std::chrono::nanoseconds overload_calm_idle = std::chrono::milliseconds(50);
  // Share of a worker's time that may go into refusing requests (aqm); 0 .. 1.
  double overload_budget = 0.1;
  // Settings of the credits.
  std::map<std::string, std::string> credits_set{};
  // Service that a request still gets, and the time that it may wait or a stop waits for it, when
  // its client has sent its last byte: it may still read, or be gone; 0ns .. 3600s.
  std::chrono::nanoseconds half_closed_limit = std::chrono::milliseconds(100);
  // Handlers belong to a runtime with threads of its own (Python, Go, Java): each runs on its
  // worker's thread and stack, from its start to its end.
  bool foreign_runtime = false;
  // Settings of gradient, gradient2, cinnamon or dagor.
  std::map<std::string, std::string> overload_set{};
  // File of a trace of what the workers do, for Perfetto, from the start; empty = none.
  std::string trace_file = "";
  // Events at which a trace ends, at some 90 bytes each; 1 .. 1000000000.
  uint32_t trace_events = 100000;
  // File of every request, for `rubato sim --workload trace:FILE`, from the start; empty = none.
  std::string record_file = "";
  // Size at which a recording ends, at some 10 bytes a request; 1MiB .. 1024GiB.
  size_t record_limit_bytes = size_t{1} << 30;
  // File of a profile of the requests, for `rubato sim --workload profile:FILE`, every 10 s and at
  // the end; empty = none.
  std::string profile_file = "";
  // How long the profile counts, from the first request on; 0 = until the end; 0ns .. 1000000s.
  std::chrono::nanoseconds profile_for = std::chrono::nanoseconds(0);
  // end of c++-fields
};

namespace detail {

// Texts as C has them, which ends them at a null character: `error` is about the first with one.
struct Texts {
  const char* of(const char* option, const std::string& text) {
    if (error.empty() && text.find('\0') != std::string::npos) {
      error = option + std::string(": takes a text without null characters");
    }
    return text.c_str();
  }

  std::string error;
};

// "name=value" each. Points into itself.
struct Settings {
  void fill(const char* option, const std::map<std::string, std::string>& from, Texts& in_c) {
    for (const auto& [name, value] : from) texts.push_back(name + "=" + value);
    for (const std::string& text : texts) pointers.push_back(in_c.of(option, text));
  }

  std::vector<std::string> texts;
  std::vector<const char*> pointers;
};

// Options as C has them. Points into `options` and itself, so it must not be moved.
struct COptions {
  explicit COptions(const Options& o) {
    rubato_options_init(&c, sizeof c);
    // generated: c++-copies
    c.policy = texts.of("policy", o.policy);
    set.fill("set", o.set, texts);
    c.set = set.pointers.data();
    c.set_count = set.pointers.size();
    c.workers = o.workers;
    c.classify = static_cast<uint32_t>(o.classify);
    c.preempt = static_cast<uint32_t>(o.preempt);
    c.preemption_clock = static_cast<uint32_t>(o.preemption_clock);
    c.stack_bytes = o.stack_bytes;
    c.max_fibers = o.max_fibers;
    c.foreign_runtime = o.foreign_runtime ? 1 : 0;
    c.idle = static_cast<uint32_t>(o.idle);
    c.idle_spin_ns = o.idle_spin.count();
    c.pin = o.pin ? 1 : 0;
    c.pin_first = o.pin_first;
    c.drain_limit_ns = o.drain_limit.count();
    c.half_closed_limit_ns = o.half_closed_limit.count();
    c.inbox_capacity = o.inbox_capacity;
    c.shared_capacity = o.shared_capacity;
    c.cores = texts.of("cores", o.cores);
    cores_set.fill("cores_set", o.cores_set, texts);
    c.cores_set = cores_set.pointers.data();
    c.cores_set_count = cores_set.pointers.size();
    c.guaranteed_cores = o.guaranteed_cores;
    c.overload = static_cast<uint32_t>(o.overload);
    c.target_delay_ns = o.target_delay.count();
    c.target_delay_long_ns = o.target_delay_long.count();
    c.overload_patience_ns = o.overload_patience.count();
    c.overload_calm_ns = o.overload_calm.count();
    c.overload_calm_idle_ns = o.overload_calm_idle.count();
    c.overload_budget = o.overload_budget;
    credits_set.fill("credits_set", o.credits_set, texts);
    c.credits_set = credits_set.pointers.data();
    c.credits_set_count = credits_set.pointers.size();
    overload_set.fill("overload_set", o.overload_set, texts);
    c.overload_set = overload_set.pointers.data();
    c.overload_set_count = overload_set.pointers.size();
    c.transport = static_cast<uint32_t>(o.transport);
    c.bind = texts.of("bind", o.bind);
    c.port = o.port;
    c.max_connections = o.max_connections;
    c.idle_timeout_ns = o.idle_timeout.count();
    c.max_request_bytes = o.max_request_bytes;
    c.max_reply_bytes = o.max_reply_bytes;
    c.metrics_bind = texts.of("metrics_bind", o.metrics_bind);
    c.metrics_port = o.metrics_port;
    c.handle_signals = o.handle_signals ? 1 : 0;
    c.rpc_target_delay_ns = o.rpc_target_delay.count();
    c.agent_bind = texts.of("agent_bind", o.agent_bind);
    c.agent_port = o.agent_port;
    c.sessions_per_address = o.sessions_per_address;
    c.trace_file = texts.of("trace_file", o.trace_file);
    c.trace_events = o.trace_events;
    c.record_file = texts.of("record_file", o.record_file);
    c.record_limit_bytes = o.record_limit_bytes;
    c.profile_file = texts.of("profile_file", o.profile_file);
    c.profile_for_ns = o.profile_for.count();
    // end of c++-copies
  }
  COptions(const COptions&) = delete;
  COptions& operator=(const COptions&) = delete;

  Texts texts;
  // generated: c++-members
  Settings set;
  Settings cores_set;
  Settings credits_set;
  Settings overload_set;
  // end of c++-members
  rubato_options c;
};

}  // namespace detail

}  // namespace rubato::inline v1
