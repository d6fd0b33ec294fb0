// SPDX-License-Identifier: Apache-2.0
//
// Rubato in C: a server in which a long request never blocks a short one. C11 or C++.
//
//   create a server from options and an application  ->  run (blocks)  ->  destroy
//
// The application takes one of three shapes:
//   handler  `handle` is called for each request; `classify` gives the request's class beforehand;
//   loop     `loop` runs on every worker and calls rubato_recv, rubato_send, and in between
//            rubato_long_begin, rubato_long_end (Synergy, Algorithm 5.1);
//   hooks    `init`, then for each request `process` and `build_response` (SBB, table 2).
// <rubato/rubato.hpp> is the same interface in C++.
//
// Threads: each function names the threads that may call it. "Worker" means: from a callback, on
// the thread and the stack that the callback was called on. A callback may move to another thread
// at a checkpoint, and nowhere else; it must not hold a lock there, nor keep the address of a
// thread_local or of errno across the checkpoint.
// Ownership: rubato_server_create copies its arguments, but `user` and the data that callbacks
// point to belong to the caller and outlive the server. A request belongs to the server and is gone
// once it is answered.
// Errors: a function returns a status and writes one line of text into a rubato_error, which may be
// null; no function throws. An exception from a callback written in C++ is caught, and the request
// counts as failed.
// Units: times are in nanoseconds (`_ns`), sizes in bytes. Options and the application begin with
// the size of their struct, so that a program keeps working with a later library; fill them with
// their _init function first.
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

// One line of text, terminated by a null character and cut at 255 characters. The line about a bad
// option names the option and the values it takes.
typedef struct rubato_error {
  char text[256];
} rubato_error;

// Status of the functions that return an int.
enum {
  RUBATO_OK = 0,
  RUBATO_ERROR = -1,
  RUBATO_DRAIN_LIMIT = 1,  // rubato_server_run: stopped with requests unfinished
};

// The rule that splits the byte stream of a connection into requests.
enum rubato_framing {
  // A request begins with the length of its payload: four bytes, big-endian. The library puts the
  // same prefix in front of each reply.
  RUBATO_FRAMING_LENGTH = 0,
  // A request is a line. The payload excludes the newline and a carriage return before it. The
  // library ends each reply with a newline.
  RUBATO_FRAMING_LINES = 1,
  // The callback `frame` finds the requests. Replies are sent as they are.
  RUBATO_FRAMING_USER = 2,
  // Rubato RPC, docs/RPC.md: clients have credits, and requests that would wait for too long are
  // refused before they run. The payload is the body of the request, and the reply is the body of
  // the response. The protocol answers a refused request; `refuse` is not called.
  RUBATO_FRAMING_RPC = 3,
};

enum rubato_frame_state {
  RUBATO_FRAME_INCOMPLETE = 0,
  RUBATO_FRAME_COMPLETE = 1,
  RUBATO_FRAME_MALFORMED = 2,  // the request is refused and the connection closed
};

// The request that `frame` finds at the start of the bytes it is given. Unit: bytes.
typedef struct rubato_frame {
  size_t length_bytes;    // complete: the length of the request, at least 1. Incomplete: the
                          // length that the request will have, or 0 if it is not known
  size_t payload_offset;  // complete: the part of the request that is the payload;
  size_t payload_bytes;   // both 0 = the whole request
} rubato_frame;

// The class that `classify` gives a request; all fields are 0 by default.
typedef struct rubato_class {
  // 0 .. 255, chosen by the application; what is above counts as 255. Statistics are kept per type.
  // Policies tell 0 .. 62 apart at most, and take those above for one.
  uint32_t type;
  uint32_t is_long;     // 1 = the request may be preempted from the start
  uint32_t priority;    // of a long request: 0 .. 7, 0 is the most urgent level (Synergy 7.4)
  uint32_t is_control;  // 1 = control plane (a health check): keeps a share under any load
  uint64_t deadline_ns; // time after the arrival when the reply is of no more use; 0 = no deadline
} rubato_class;

// The reason why a request is refused. All but an overload close the connection.
enum rubato_refusal {
  RUBATO_REFUSED_OVERLOAD = 0,   // full queues, too long a wait, a passed deadline, or a stop
  RUBATO_REFUSED_FAILED = 1,     // the application failed
  RUBATO_REFUSED_MALFORMED = 2,  // the bytes are not a request
  RUBATO_REFUSED_TOO_LARGE = 3,  // the request is larger than max_request_bytes
};

// A callback that returns an int returns RUBATO_OK for success; any other value means failure. If a
// request's callback fails, the part of the reply that has not been sent is dropped, the request is
// refused, the connection is closed, and `failed` counts it.
//
// init, handle, loop, process and build_response may call checkpoints. The other callbacks run
// between requests and must be brief; a checkpoint in them does nothing. Callbacks run on several
// workers at once, so the application guards the data that they share.
typedef struct rubato_application {
  size_t struct_size;
  void* user;                      // first argument of every callback
  uint32_t framing;                // enum rubato_framing
  // Required by RUBATO_FRAMING_USER, else null. Returns an enum rubato_frame_state and fills
  // `*frame`.
  int (*frame)(void* user, const char* bytes, size_t size, rubato_frame* frame);
  // Fills `*to` when a request arrives; may be null.
  void (*classify)(void* user, const char* payload, size_t size, rubato_class* to);

  // May be null in every shape. rubato_server_run calls it once, before the workers start. On
  // failure it writes a line into `error`, which is never null here.
  int (*init)(void* user, rubato_error* error);

  // Exactly one of these is set: handle; loop; process with build_response. `*result` belongs to
  // the application and goes from process to build_response, which is not called if process fails.
  int (*handle)(void* user, rubato_request* request);
  void (*loop)(void* user);
  int (*process)(void* user, rubato_request* request, void** result);
  int (*build_response)(void* user, rubato_request* request, void* result);

  // Replies to a refused request through rubato_request_reply. `reason` is an enum rubato_refusal;
  // after an overload, rubato_request_retry_after_ns gives the time to wait. If it is null, the
  // library replies with a line such as "refused: overload"; with RUBATO_FRAMING_USER it sends
  // nothing and closes the connection.
  void (*refuse)(void* user, rubato_request* request, int reason);

  // Make and destroy the state of one connection, see rubato_request_connection; both may be null.
  // They may be called on any worker, but never both at once for one connection. With
  // RUBATO_FRAMING_RPC several requests of one connection may run at once and share this state.
  void* (*connected)(void* user, uint64_t connection, const char* peer);
  void (*disconnected)(void* user, void* state);

  const char* const* type_names;   // in the metrics, for types 0 .. type_names_count - 1
  size_t type_names_count;         // 0 .. 256
} rubato_application;

// Sets the defaults; `size` is sizeof *options, or sizeof *application. Any thread.
void rubato_options_init(rubato_options* options, size_t size);
void rubato_application_init(rubato_application* application, size_t size);

// The version of the library, such as "0.2.0". Any thread.
const char* rubato_version(void);

// Creates a server: it binds its address and reserves its resources, but serves no request yet.
// Returns null, with a line in `error`, when an option is out of range, the policy is unknown, the
// address is in use, or the application has not exactly one shape. Any thread.
rubato_server* rubato_server_create(const rubato_options* options,
                                    const rubato_application* application, rubato_error* error);

// Serves on threads of its own and blocks until the server has stopped. A server runs once.
// Returns RUBATO_OK when all requests in flight were answered, RUBATO_DRAIN_LIMIT when some were
// not answered in time, and RUBATO_ERROR when the server did not start: `init` failed, the metrics
// or agent port is in use, a file that is recorded into cannot be written, or it has run before.
// Any thread but a worker.
int rubato_server_run(rubato_server* server, rubato_error* error);

// Stops the server: it takes no new requests and finishes those in flight, and rubato_server_run
// returns after the drain limit at the latest. May be called on any thread, any number of times,
// before rubato_server_run, and in a signal handler.
void rubato_server_stop(rubato_server* server);

// Frees the server; null is allowed. Any thread, while no thread is in another call with this
// server.
void rubato_server_destroy(rubato_server* server);

// The TCP ports of the server; 0 = none. Any thread. The metrics port and the agent port are 0
// until rubato_server_run has opened them, after `init`.
uint32_t rubato_server_port(const rubato_server* server);
uint32_t rubato_server_metrics_port(const rubato_server* server);
uint32_t rubato_server_agent_port(const rubato_server* server);

// Returns 1 until the server is told to stop, then 0. Any thread.
int rubato_server_is_serving(const rubato_server* server);

// Runs one step of the timer core, for RUBATO_PREEMPTION_CLOCK_EMBEDDED. Call it about every
// microsecond while the server runs, from one thread at a time.
void rubato_server_poll_timer(rubato_server* server);

// Counts since the start of the server, over all workers.
typedef struct rubato_stats {
  size_t struct_size;
  uint64_t requests;             // finished
  uint64_t refused;              // for overload, full queues, or because the server was stopping
  uint64_t failed;               // requests that the application failed or never sent
  uint64_t malformed;            // requests that were malformed or too large
  uint64_t preemptions;          // requests put back before they were done
  uint64_t preemptions_avoided;  // slices that ended with no request waiting
  uint64_t preemptions_denied;   // preemptions not done for want of a fiber
  uint64_t resumed;
  uint64_t long_by_feedback;
  uint64_t long_by_age;
  uint64_t long_learned;
  uint64_t steals;
  uint64_t stolen;               // requests that the steals took
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

// The times that requests of one type took, within 0.8 %.
typedef struct rubato_times {
  uint64_t count;
  int64_t mean_ns;
  int64_t p50_ns;
  int64_t p90_ns;
  int64_t p99_ns;
  int64_t p999_ns;
  int64_t max_ns;
} rubato_times;

// Fills *latency with the times from arrival to reply, and *service with the times on workers, of
// requests of that type since the start. Either may be null. Any thread.
void rubato_server_times(const rubato_server* server, uint32_t type, rubato_times* latency,
                         rubato_times* service);

// The files that the options name. Each begins as rubato_server_run does and is whole once that
// has returned. All return RUBATO_ERROR, with a line in `error`, if the file cannot be written,
// there is none or the caller is a worker. They may block for the disk. Any thread.
//
// rubato_server_trace begins a trace in trace_file, written anew, if `wanted` is nonzero, else ends
// it, and then the file is whole. What is so already stays. At an end it also returns RUBATO_ERROR
// if the last trace is not whole, as on a full disk, though it had ended by itself before.
// rubato_server_record does the same with a recording of the requests in record_file: type,
// arrival, service, connection. A request of the control plane, or that came before the beginning,
// is in none.
// rubato_server_write_profile writes profile_file as it is now, else written every 10 s: with all
// requests that have ended, and with the arrivals until 0.25 s ago, or after a stop with all. Also
// RUBATO_ERROR if fewer than two requests came. A later failure is logged and tried again.
int rubato_server_trace(rubato_server* server, int wanted, rubato_error* error);
int rubato_server_record(rubato_server* server, int wanted, rubato_error* error);
int rubato_server_write_profile(rubato_server* server, rubato_error* error);

// Functions of a request. They are called on the worker that runs the request, before the request
// is answered.
//
// The payload and, unless `size` is null, its size. It has no terminating null character and is
// valid as long as the request.
const char* rubato_request_payload(const rubato_request* request, size_t* size);
// Appends to the reply. Returns RUBATO_ERROR when the reply exceeds max_reply_bytes; the request
// then fails.
int rubato_request_reply(rubato_request* request, const void* bytes, size_t size);
// Closes the connection once the reply has been sent.
void rubato_request_close_after(rubato_request* request);
// Fails the request, as if its callback had failed; for `loop`, which has no status to return.
void rubato_request_fail(rubato_request* request);
// Returns nonzero when the reply is no longer wanted, as a checkpoint has said or is about to say.
// The request should then end as soon as it can; it is refused as failed, whatever its reply.
int rubato_request_cancelled(const rubato_request* request);
// The type that `classify` gave, else 0.
uint32_t rubato_request_type(const rubato_request* request);
uint32_t rubato_request_preemptions(const rubato_request* request);  // so far
uint64_t rubato_request_connection_id(const rubato_request* request);  // unique, from 1 on
void* rubato_request_connection(const rubato_request* request);  // the result of `connected`
// In `refuse`, for an overload: the time before which a retry is useless; 0 = not known.
int64_t rubato_request_retry_after_ns(const rubato_request* request);

// A reply that is given later: the token takes the place of the reply that the handler has not
// written yet. The handler, `build_response` or the loop's rubato_send ends, the request has no
// worker any more, and its connection waits; then rubato_later_append adds to the reply and
// rubato_later_send sends it, on any thread, one at a time. rubato_later_drop fails the request, as
// if the handler had failed; `failed` counts it. Each token ends by one of the two. The deadline, a
// client that is gone and a stop at its drain limit end the request before; append then returns
// RUBATO_ERROR, sooner or later, as it does when memory runs out, and the token still ends as said.
// Meanwhile the request takes one of max_fibers. rubato_request_defer: worker; null = the request
// has a token, memory runs out, or foreign_runtime is set. The others: any thread; they do not
// block, and rubato_later_drop takes null.
typedef struct rubato_later rubato_later;
rubato_later* rubato_request_defer(rubato_request* request);
int rubato_later_append(rubato_later* later, const void* bytes, size_t size);
void rubato_later_send(rubato_later* later);
void rubato_later_drop(rubato_later* later);

// The server loop; only `loop` calls these. rubato_recv returns the next request, or null when the
// server stops, and `loop` must then return. A request that is not sent before the next rubato_recv
// has failed. rubato_recv may switch (to another request, perhaps on another worker). rubato_send
// returns RUBATO_ERROR if `request` is not the current request.
rubato_request* rubato_recv(void);
int rubato_send(rubato_request* request);

// Feedback (Synergy 5.1): the code between the two calls is long and may be preempted at
// checkpoints. rubato_long_begin sends the reply as far as it is written (except with
// RUBATO_FRAMING_LENGTH and RUBATO_FRAMING_RPC). `priority` is as in rubato_class; a value over 7
// counts as 7. Worker; elsewhere the functions do nothing.
void rubato_long_begin(uint32_t priority);
void rubato_long_end(void);

// A critical non-preemptible region: the request is not preempted between the two calls, which may
// be nested. If a preemption falls due meanwhile, the outermost rubato_preempt_enable makes up for
// it and may switch. Worker; elsewhere the functions do nothing.
void rubato_preempt_disable(void);
void rubato_preempt_enable(void);

// A value per key and request. The value moves with its request from worker to worker and is
// destroyed when the request is sent; on a thread that runs no request it belongs to the thread.
// <rubato/fiber_local.hpp> is the C++ form. Any thread. A key is never given back. The value is
// null until it is set, which is allowed once per request. rubato_fiber_local_set takes ownership
// of `value`; it returns RUBATO_ERROR when memory runs out, and `value` is then still the caller's.
uint32_t rubato_fiber_local_new_key(void);
void* rubato_fiber_local(uint32_t key);
int rubato_fiber_local_set(uint32_t key, void* value, void (*destroy)(void* value));

// The client side of RUBATO_TRANSPORT_LOOPBACK. Any thread but a worker, since receive blocks.
//
// Opens a connection and returns its number, or 0 when the server refuses it or has another
// transport.
uint64_t rubato_loopback_connect(rubato_server* server);
// Sends all bytes. Returns RUBATO_ERROR when the connection is closed, or when the bytes do not fit
// into the 1 MiB that may be in transit.
int rubato_loopback_send(rubato_server* server, uint64_t connection, const void* bytes,
                         size_t size);
// Waits until `size` bytes of replies have arrived, the connection is closed, or `limit_ns` has
// passed. Returns the number of bytes it took, at most `size`.
size_t rubato_loopback_receive(rubato_server* server, uint64_t connection, void* bytes, size_t size,
                               int64_t limit_ns);
// Closes the connection and forgets its unread replies.
void rubato_loopback_close(rubato_server* server, uint64_t connection);

#ifdef __cplusplus
}  // extern "C"
#endif
