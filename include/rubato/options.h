// SPDX-License-Identifier: Apache-2.0
//
// Options of one server, in C. Plain data, with no lock: fill the struct with rubato_options_init,
// change the fields that are to differ, and give it to rubato_server_create, which checks every
// field and copies it. Times are in nanoseconds (`_ns`), sizes in bytes. docs/OPTIONS.md lists the
// same options in a table.
//
// The mechanisms that preempt at any instruction (enum rubato_preempt) need no checkpoints and give
// every request its own thread-local storage. They require a program that is linked with
// librubato-interpose.so or has it preloaded.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// generated: c-enums
// What makes a request long, so that it may be preempted.
enum rubato_classify {
  RUBATO_CLASSIFY_FEEDBACK = 0,  // the application alone, at any time
  RUBATO_CLASSIFY_AGE = 1,  // or it outlives a quantum
  RUBATO_CLASSIFY_LEARNED = 2,  // or its kind did so before
  RUBATO_CLASSIFY_DECLARED = 3,  // the application alone, when the request arrives
};

// How long requests are preempted; `rubato doctor` says what works here.
enum rubato_preempt {
  RUBATO_PREEMPT_AUTO = 0,  // the best that works: uintr, kmod, else checkpoint
  RUBATO_PREEMPT_NONE = 1,  // a request runs to its end
  RUBATO_PREEMPT_CHECKPOINT = 2,  // at checkpoints, where its code has them
  RUBATO_PREEMPT_SIGNAL = 3,  // at any instruction, as all below: a timer core sends a signal
  RUBATO_PREEMPT_TIMER = 4,  // a timer of its worker's own
  RUBATO_PREEMPT_UINTR = 5,  // a timer core sends a user interrupt
  RUBATO_PREEMPT_KMOD = 6,  // a timer core has a kernel module interrupt the CPU
};

// Which clock ends the slices of a long request.
enum rubato_preemption_clock {
  RUBATO_PREEMPTION_CLOCK_SELF = 0,  // its own worker, at checkpoints
  RUBATO_PREEMPTION_CLOCK_TIMER_CORE = 1,  // a thread of the server
  RUBATO_PREEMPTION_CLOCK_EMBEDDED = 2,  // the program around the library, by polling
};

// What workers do that have nothing to do.
enum rubato_idle {
  RUBATO_IDLE_ADAPTIVE = 0,  // spin, then sleep
  RUBATO_IDLE_SPIN = 1,  // never sleep: for isolated cores
};

// What an overloaded server does.
enum rubato_overload {
  RUBATO_OVERLOAD_NONE = 0,  // it serves as long as queues have room
  // it refuses requests that have waited longer than twice the target delay
  RUBATO_OVERLOAD_AQM = 1,
  // clients may have as many requests underway as they were given credits, by Rubato RPC
  RUBATO_OVERLOAD_CREDITS = 2,
  // it limits the requests inside by how their latency compares with the least one, as Envoy does
  RUBATO_OVERLOAD_GRADIENT = 3,
  // it refuses the least urgent requests, a share that a PID controller finds from the flow through
  // the queue, as Uber does
  RUBATO_OVERLOAD_CINNAMON = 4,
  // it refuses requests below a priority that falls while they wait for longer than the target
  // delay, as WeChat does
  RUBATO_OVERLOAD_DAGOR = 5,
  // it limits the requests inside by how their latency compares with the usual one, as Netflix does
  RUBATO_OVERLOAD_GRADIENT2 = 6,
};

// Where requests come from.
enum rubato_transport {
  RUBATO_TRANSPORT_TCP = 0,  // kernel sockets
  RUBATO_TRANSPORT_LOOPBACK = 1,  // in this process, for tests
};
// end of c-enums

typedef struct rubato_options {
  size_t struct_size;
  // generated: c-fields
  // Scheduling policy, see `rubato policies`; synergy by default.
  const char* policy;
  // Settings of the policy, "name=value" each.
  const char* const* set;
  size_t set_count;
  // Worker threads; 0 = one for each CPU that the process may use, by its affinity and the CPU
  // quota of its control group; 0 .. 256; 0 by default.
  uint32_t workers;
  // What makes a request long, so that it may be preempted; enum rubato_classify; age by default.
  uint32_t classify;
  // Which clock ends the slices of a long request; enum rubato_preemption_clock; self by default.
  uint32_t preemption_clock;
  // What workers do that have nothing to do; enum rubato_idle; adaptive by default.
  uint32_t idle;
  // How long an adaptive worker spins before it sleeps; beside a best-effort command 10us unless
  // given; 0ns .. 1s; 50us by default.
  int64_t idle_spin_ns;
  // Run worker i on the i-th allowed CPU; beside a best-effort command also unless told, where
  // there is a worker for each CPU; 0 or 1; off by default.
  uint32_t pin;
  // First CPU that is used by `pin`, as an index; 0 .. 4096; 0 by default.
  uint32_t pin_first;
  // Stack that a request runs on; 16KiB .. 64MiB; 16MiB by default.
  size_t stack_bytes;
  // Requests that can be suspended at once, and one for each worker; 2 .. 30000; 4096 by default.
  uint32_t max_fibers;
  // Where requests come from; enum rubato_transport; tcp by default.
  uint32_t transport;
  // Address or host name to listen on; * = all addresses; 127.0.0.1 by default.
  const char* bind;
  // TCP port; 0 = any free one; 0 .. 65535; 0 by default.
  uint32_t port;
  // Connections at most, fewer where the system allows no more; what comes beyond is closed and
  // counted; 1 .. 1000000; 10000 by default.
  uint32_t max_connections;
  // Connections are closed that have been idle for so long; 0 = never; 0ns .. 2147483648s; 0ns by
  // default.
  int64_t idle_timeout_ns;
  // A larger request is refused, and its connection closed; 1B .. 1GiB; 16MiB by default.
  size_t max_request_bytes;
  // Replies that wait to be read by one client; with more its connection is closed; 1B .. 1GiB;
  // 256MiB by default.
  size_t max_reply_bytes;
  // Longest time between the order to stop and the end, for requests in flight; 0ns .. 3600s; 10s
  // by default.
  int64_t drain_limit_ns;
  // Address of the metrics port; 127.0.0.1 by default.
  const char* metrics_bind;
  // Port of /metrics, /state, /plan, /healthz and /readyz; 0 = any free one; -1 = none, 0 .. 65535;
  // none by default.
  int32_t metrics_port;
  // SIGTERM and SIGINT stop the server, a second one at once; those that would end the process but
  // have no handler, SIGHUP, SIGUSR1, SIGUSR2 and SIGPIPE, do no harm; 0 or 1; off by default.
  uint32_t handle_signals;
  // How long requests are preempted; `rubato doctor` says what works here; enum rubato_preempt;
  // auto by default.
  uint32_t preempt;
  // In place of target_delay, with RPC framing: while requests wait for longer there are fewer
  // credits, from twice that on they are refused; 1us .. 60s; 1ms by default.
  int64_t rpc_target_delay_ns;
  // What an overloaded server does; enum rubato_overload; none by default.
  uint32_t overload;
  // Workers that an allocator leaves alone, at least 1 in a server; 0 .. 256; 1 by default.
  uint32_t guaranteed_cores;
  // How long requests may wait for their turn; 1us .. 60s; 3ms by default.
  int64_t target_delay_ns;
  // The same of long requests; 0 = as others, or eight times their own service where they share a
  // worker; 0ns .. 60s; 0ns by default.
  int64_t target_delay_long_ns;
  // Which workers have a core: adaptive (all, and they sleep when idle), or what an allocator
  // leaves them, see `rubato options`; adaptive by default.
  const char* cores;
  // Settings of the allocator of cores, "name=value" each.
  const char* const* cores_set;
  size_t cores_set_count;
  // Address of the agent port; 127.0.0.1 by default.
  const char* agent_bind;
  // Port that tells load balancers the server's weight, by HAProxy's agent-check; 0 = any free one;
  // -1 = none, 0 .. 65535; none by default.
  int32_t agent_port;
  // RPC sessions at most from one client address; 0 = as many as max_connections; 0 .. 1000000; 0
  // by default.
  uint32_t sessions_per_address;
  // Requests that wait at one worker at most; 64 .. 1048576; 16384 by default.
  uint32_t inbox_capacity;
  // Requests that wait in one global queue at most; 64 .. 1048576; 16384 by default.
  uint32_t shared_capacity;
  // Waits are overload once a worker has not run out of work for so long (aqm); 0ns .. 60s; 100ms
  // by default.
  int64_t overload_patience_ns;
  // Overload is over when nobody was late for so long (aqm); 0ns .. 60s; 100ms by default.
  int64_t overload_calm_ns;
  // The same where a worker runs out of work again (aqm); 0ns .. 60s; 50ms by default.
  int64_t overload_calm_idle_ns;
  // Share of a worker's time that may go into refusing requests (aqm); 0 .. 1; 0.1 by default.
  double overload_budget;
  // Settings of the credits, "name=value" each.
  const char* const* credits_set;
  size_t credits_set_count;
  // Service that a request still gets, and the time that it may wait or a stop waits for it, when
  // its client has sent its last byte: it may still read, or be gone; 0ns .. 3600s; 100ms by
  // default.
  int64_t half_closed_limit_ns;
  // Handlers belong to a runtime with threads of its own (Python, Go, Java): each runs on its
  // worker's thread and stack, from its start to its end; 0 or 1; off by default.
  uint32_t foreign_runtime;
  // Settings of gradient, gradient2, cinnamon or dagor, "name=value" each.
  const char* const* overload_set;
  size_t overload_set_count;
  // File of a trace of what the workers do, for Perfetto, from the start; empty = none.
  const char* trace_file;
  // Events at which a trace ends, at some 90 bytes each; 1 .. 1000000000; 100000 by default.
  uint32_t trace_events;
  // File of every request, for `rubato sim --workload trace:FILE`, from the start; empty = none.
  const char* record_file;
  // Size at which a recording ends, at some 10 bytes a request; 1MiB .. 1024GiB; 1GiB by default.
  size_t record_limit_bytes;
  // File of a profile of the requests, for `rubato sim --workload profile:FILE`, every 10 s and at
  // the end; empty = none.
  const char* profile_file;
  // How long the profile counts, from the first request on; 0 = until the end; 0ns .. 1000000s; 0ns
  // by default.
  int64_t profile_for_ns;
  // end of c-fields
} rubato_options;

#ifdef __cplusplus
}
#endif
