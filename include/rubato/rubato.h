// SPDX-License-Identifier: Apache-2.0
//
// Rubato in C: a server in which a long request never blocks a short one. C11 or C++.
//
//   create a server from options and an application  ->  run (blocks)  ->  destroy
//
// The application takes one of three shapes:
//   handler  `handle` is called for each request, and `classify` says beforehand what it is;
//   loop     `loop` runs on every worker and calls rubato_recv, rubato_send, and in between
//            rubato_long_begin, rubato_long_end (Synergy, Algorithm 5.1);
//   hooks    `init`, then for each request `process` and `build_response` (SBB, table 2).
// C++ has the same in <rubato/rubato.hpp>.
//
// Threads: each function says which threads may call it. "Worker" means: from a callback, on the
// thread and the stack it was called on. A callback may move to another thread at a checkpoint, and
// nowhere else; it must not hold a lock there, nor keep the address of a thread_local or errno over
// it.
// Ownership: what is given to rubato_server_create is copied, but `user` and what callbacks point
// to are the caller's and outlive the server. A request is the server's, and gone once answered.
// Errors: a line of text in a rubato_error (which may be null) and a status; nothing throws. What
// a callback written in C++ throws is caught, and the request counts as failed.
// Units: times are nanoseconds (`_ns`), sizes bytes. Structs begin with their size, so that a
// program keeps working with a later library; fill them with their _init function first.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <rubato/checkpoint.h>
#include <rubato/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rubato_server rubato_server;
typedef struct rubato_request rubato_request;

// One line, ended by zero. Of an option that does not fit it names the option and what it takes.
typedef struct rubato_error {
  char text[256];
} rubato_error;

// Status of the functions that return an int.
enum {
  RUBATO_OK = 0,
  RUBATO_ERROR = -1,
  RUBATO_DRAIN_LIMIT = 1,  // rubato_server_run: stopped with requests unfinished
};

// Where one request ends and the next begins.
enum rubato_framing {
  // Four bytes, the length of the rest, big-endian. Replies get their length in front as well.
  RUBATO_FRAMING_LENGTH = 0,
  // Up to a newline; it and a carriage return before it are no part. Replies get a newline.
  RUBATO_FRAMING_LINES = 1,
  // As `frame` says. Replies are sent as they are.
  RUBATO_FRAMING_USER = 2,
  // Rubato RPC, docs/RPC.md: clients have credits, and requests that would wait for too long are
  // refused before they are run. The payload is a request's body, what is replied that of the
  // response; what is refused is answered by the protocol, not by `refuse`.
  RUBATO_FRAMING_RPC = 3,
};

enum rubato_frame_state {
  RUBATO_FRAME_INCOMPLETE = 0,
  RUBATO_FRAME_COMPLETE = 1,
  RUBATO_FRAME_MALFORMED = 2,  // refused, and the connection closed
};

// What `frame` finds at the start of the bytes it is shown.
typedef struct rubato_frame {
  size_t length_bytes;    // complete: of the request, at least 1. Incomplete: how many it will be
                          // in all if that is known, else 0
  size_t payload_offset;  // complete: which part of it is the payload;
  size_t payload_bytes;   // 0 and length_bytes by default
} rubato_frame;

// What `classify` says; all 0 by default.
typedef struct rubato_class {
  uint32_t type;        // 0 .. 255, the application's own; statistics are kept by it
  uint32_t is_long;     // 1 = may be preempted from the start
  uint32_t priority;    // of long ones: 0 .. 7, 0 is the most urgent level (Synergy 7.4)
  uint32_t is_control;  // 1 = control plane (a health check): keeps a share under any load
  uint64_t deadline_ns; // after its arrival nobody wants the reply any more; 0 = there is none
} rubato_class;

enum rubato_refusal {
  RUBATO_REFUSED_OVERLOAD = 0,   // queues full, too long a wait, past its deadline, or stopping
  RUBATO_REFUSED_FAILED = 1,     // the application failed; the connection will be closed
  RUBATO_REFUSED_MALFORMED = 2,  // the same
  RUBATO_REFUSED_TOO_LARGE = 3,  // the same
};

// Callbacks return RUBATO_OK, or anything else to fail: then what was replied is dropped where it
// has not yet been sent, the request is refused, the connection closed, `failed` counted.
//
// init, handle, loop, process and build_response may call checkpoints. The others run between
// requests and must be brief; a checkpoint in them does nothing.
typedef struct rubato_application {
  size_t struct_size;
  void* user;                      // first argument of every callback
  uint32_t framing;                // enum rubato_framing
  int (*frame)(void* user, const char* bytes, size_t size, rubato_frame* frame);
  void (*classify)(void* user, const char* payload, size_t size, rubato_class* to);

  // In every shape, may be null. Once, in rubato_server_run, before the workers start; what fails
  // leaves a line in `error`.
  int (*init)(void* user, rubato_error* error);

  // One of three: handle; loop; process and build_response. `*result` goes from the one to the
  // other and is the application's; build_response is not called if process failed.
  int (*handle)(void* user, rubato_request* request);
  void (*loop)(void* user);
  int (*process)(void* user, rubato_request* request, void** result);
  int (*build_response)(void* user, rubato_request* request, void* result);

  // The reply to a request that is refused, by rubato_request_reply; `reason` is an enum
  // rubato_refusal; of an overload rubato_request_retry_after_ns tells more. When null: a line such
  // as "refused: overload", or with RUBATO_FRAMING_USER nothing and the connection is closed.
  void (*refuse)(void* user, rubato_request* request, int reason);

  // State of one connection, see rubato_request_connection; both may be null. May be called on any
  // worker, for one connection never two at once. With RUBATO_FRAMING_RPC several requests of one
  // connection may run at once, and share this state.
  void* (*connected)(void* user, uint64_t connection, const char* peer);
  void (*disconnected)(void* user, void* state);

  const char* const* type_names;   // in the metrics, for types 0 .. type_names_count - 1
  size_t type_names_count;
} rubato_application;

// Defaults; `size` is sizeof *options. Any thread.
void rubato_options_init(rubato_options* options, size_t size);
void rubato_application_init(rubato_application* application, size_t size);

// "0.2.0". Any thread.
const char* rubato_version(void);

// Binds and reserves everything, but serves nothing yet. Null = failed: an option out of range, an
// unknown policy, an address in use. Any thread.
rubato_server* rubato_server_create(const rubato_options* options,
                                    const rubato_application* application, rubato_error* error);

// Serves on threads of its own and blocks until it has stopped; once in a server's life.
// RUBATO_OK: all requests in flight were answered. RUBATO_DRAIN_LIMIT: not all were in time.
// RUBATO_ERROR: it did not start. Any thread but a worker.
int rubato_server_run(rubato_server* server, rubato_error* error);

// Takes no new requests, finishes those in flight, and ends rubato_server_run at the latest after
// the drain limit. Any thread, any number of times, also before run and in a signal handler.
void rubato_server_stop(rubato_server* server);

// Null is allowed. Any thread; nobody may be in another call with this server.
void rubato_server_destroy(rubato_server* server);

// Where clients connect; 0 = none. Any thread. The metrics and the agent port are known once `init`
// has run.
uint32_t rubato_server_port(const rubato_server* server);
uint32_t rubato_server_metrics_port(const rubato_server* server);
uint32_t rubato_server_agent_port(const rubato_server* server);

// 1 until it is told to stop. Any thread.
int rubato_server_is_serving(const rubato_server* server);

// One step of the timer core; for RUBATO_PREEMPTION_CLOCK_EMBEDDED, by one thread at a time while
// the server runs. Call it every microsecond or so.
void rubato_server_poll_timer(rubato_server* server);

// Sums since the start.
typedef struct rubato_stats {
  size_t struct_size;
  uint64_t requests;             // finished
  uint64_t refused;              // for overload, full queues, or because the server was stopping
  uint64_t failed;               // the application failed, or never sent them
  uint64_t malformed;            // or too large
  uint64_t preemptions;          // requests put back before they were done
  uint64_t preemptions_avoided;  // slices that ended with nobody waiting
  uint64_t preemptions_denied;   // for want of a fiber
  uint64_t resumed;
  uint64_t long_by_feedback;
  uint64_t long_by_age;
  uint64_t long_learned;
  uint64_t steals;
  uint64_t stolen;               // requests
  uint64_t parked;               // times a worker went to sleep
  uint64_t busy_ns;              // of all workers
  uint64_t fibers;               // made so far
  uint64_t stack_high_water_bytes;
  uint64_t connections;          // open now
  uint64_t connections_accepted;
  uint64_t connections_refused;  // over max_connections
  uint64_t input_bytes;
  uint64_t output_bytes;
} rubato_stats;

// Fills *stats; `size` is sizeof *stats. Any thread.
void rubato_server_stats(const rubato_server* server, rubato_stats* stats, size_t size);

// How long requests of a type took; within 0.8 %.
typedef struct rubato_times {
  uint64_t count;
  int64_t mean_ns;
  int64_t p50_ns;
  int64_t p90_ns;
  int64_t p99_ns;
  int64_t p999_ns;
  int64_t max_ns;
} rubato_times;

// From arrival to reply, and on workers. Either may be null. Any thread.
void rubato_server_times(const rubato_server* server, uint32_t type, rubato_times* latency,
                         rubato_times* service);

// Requests. On the worker that runs the request, until it is answered.
// The payload; not ended by zero, valid as long as the request.
const char* rubato_request_payload(const rubato_request* request, size_t* size);
// Appends to the reply. RUBATO_ERROR: over max_reply_bytes; the request fails.
int rubato_request_reply(rubato_request* request, const void* bytes, size_t size);
// Closes the connection once the reply has been sent.
void rubato_request_close_after(rubato_request* request);
// The request fails, as if its callback had; for the loop.
void rubato_request_fail(rubato_request* request);
// Not 0: a checkpoint has said, or is about to say, that nobody wants the reply any more. Then the
// request is to end as soon as it can, and is refused as if it had failed, whatever it replies.
int rubato_request_cancelled(const rubato_request* request);
uint32_t rubato_request_type(const rubato_request* request);
uint32_t rubato_request_preemptions(const rubato_request* request);  // so far
uint64_t rubato_request_connection_id(const rubato_request* request);  // unique, from 1 on
void* rubato_request_connection(const rubato_request* request);  // what `connected` returned
// In `refuse`, for an overload: sooner it is in vain to ask again; 0 = not known.
int64_t rubato_request_retry_after_ns(const rubato_request* request);

// The server loop, only in `loop`. recv returns null when the server stops, then the loop returns;
// a request that was not sent by then, or by the next recv, has failed. May switch (to another
// request, perhaps on another worker). send: RUBATO_ERROR if it is not the current request.
rubato_request* rubato_recv(void);
int rubato_send(rubato_request* request);

// Feedback, Synergy 5.1: what follows is long and may be preempted, at checkpoints. What has been
// replied so far is sent (except with RUBATO_FRAMING_LENGTH). `priority` as in rubato_class.
// Worker; elsewhere they do nothing.
void rubato_long_begin(uint32_t priority);
void rubato_long_end(void);

// No preemption in between; may be nested. One that falls due is made up for by
// rubato_preempt_enable, which may switch then. For critical non-preemptible regions. Worker;
// elsewhere they do nothing.
void rubato_preempt_disable(void);
void rubato_preempt_enable(void);

// A value per request, which goes with it from worker to worker and is destroyed when it is sent;
// off a request, per thread. <rubato/fiber_local.hpp> is the C++ face. Any thread; keys are never
// given back. The value is null until it is set, once per request; `set` takes it over.
// RUBATO_ERROR: no memory, nothing was taken over.
uint32_t rubato_fiber_local_new_key(void);
void* rubato_fiber_local(uint32_t key);
int rubato_fiber_local_set(uint32_t key, void* value, void (*destroy)(void* value));

// The client side of RUBATO_TRANSPORT_LOOPBACK. Any thread; not a worker, for receive blocks.
// A connection; 0 = refused, or another transport.
uint64_t rubato_loopback_connect(rubato_server* server);
// RUBATO_ERROR: closed, or 1 MiB on its way already.
int rubato_loopback_send(rubato_server* server, uint64_t connection, const void* bytes,
                         size_t size);
// Waits until `size` bytes of replies are there, the connection is closed, or the limit has passed;
// returns how many were taken.
size_t rubato_loopback_receive(rubato_server* server, uint64_t connection, void* bytes, size_t size,
                               int64_t limit_ns);
void rubato_loopback_close(rubato_server* server, uint64_t connection);

#ifdef __cplusplus
}  // extern "C"
#endif
