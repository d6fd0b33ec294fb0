// SPDX-License-Identifier: Apache-2.0
//
// Request: one request while it runs; Frame and Class describe a request before it runs. A Request
// refers to the server's request and owns nothing: it is valid, on the worker that runs the
// request, until the handler returns or the request is sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// State of one connection, made by Application::connected and destroyed after the connection has
// closed. One worker at a time uses it, except with Framing::kRpc, where several requests of one
// connection may run at once and share the state.
struct Connection {
  virtual ~Connection() = default;
};

// A reply that is given after the handler has returned, on any thread; the request has no worker
// meanwhile. One thread at a time uses it. Destroyed without send(), the request fails.
class LaterReply {
 public:
  LaterReply() = default;
  explicit LaterReply(rubato_later* c) : c_(c) {}
  ~LaterReply() { rubato_later_drop(c_); }
  LaterReply(LaterReply&& other) noexcept : c_(std::exchange(other.c_, nullptr)) {}
  LaterReply& operator=(LaterReply&& other) noexcept {
    if (this != &other) rubato_later_drop(std::exchange(c_, std::exchange(other.c_, nullptr)));
    return *this;
  }

  // False: there is none, as Request::defer says, or it has been sent.
  explicit operator bool() const { return c_ != nullptr; }
  // False: the request has ended, and nobody wants the reply.
  bool append(std::string_view bytes) {
    return rubato_later_append(c_, bytes.data(), bytes.size()) == RUBATO_OK;
  }
  void send() { rubato_later_send(std::exchange(c_, nullptr)); }
  void send(std::string_view bytes) {
    append(bytes);
    send();
  }

 private:
  rubato_later* c_ = nullptr;
};

class Request {
 public:
  explicit Request(rubato_request* c = nullptr) : c_(c) {}

  // False: there is no request, because the server stops; see recv().
  explicit operator bool() const { return c_ != nullptr; }

  // The bytes of the request without its framing; valid as long as the request.
  std::string_view payload() const {
    size_t size = 0;
    const char* bytes = rubato_request_payload(c_, &size);
    return {bytes, size};
  }

  // Appends to the reply. False: the reply exceeds Options::max_reply_bytes, and the request has
  // failed.
  bool reply(std::string_view bytes) {
    return rubato_request_reply(c_, bytes.data(), bytes.size()) == RUBATO_OK;
  }

  // The rest of the reply comes later. Empty: the request has a LaterReply already, memory runs
  // out, or Options::foreign_runtime is set.
  LaterReply defer() { return LaterReply(rubato_request_defer(c_)); }

  // Closes the connection once the reply has been sent.
  void close_after_reply() { rubato_request_close_after(c_); }
  // Refuses the request and closes the connection, as if the handler had thrown.
  void fail() { rubato_request_fail(c_); }

  // True: the reply is no longer wanted, as a checkpoint has said or is about to say.
  bool cancelled() const { return rubato_request_cancelled(c_) != 0; }

  uint32_t type() const { return rubato_request_type(c_); }  // as `classify` gave it, else 0
  uint32_t preemptions() const { return rubato_request_preemptions(c_); }  // so far
  uint64_t connection_id() const { return rubato_request_connection_id(c_); }
  // In Application::refuse, for an overload: the time before which a retry is useless; zero = not
  // known.
  std::chrono::nanoseconds retry_after() const {
    return std::chrono::nanoseconds(rubato_request_retry_after_ns(c_));
  }

  // The state that Application::connected made, which must be a T; null if there is none.
  template <class T>
  T* connection() const {
    return static_cast<T*>(static_cast<Connection*>(rubato_request_connection(c_)));
  }

  rubato_request* c() const { return c_; }

 private:
  rubato_request* c_;
};

// The rule that splits the byte stream of a connection into requests.
enum class Framing : uint32_t {
  kLengthPrefix = RUBATO_FRAMING_LENGTH,  // four bytes, big-endian, in both directions
  kLines = RUBATO_FRAMING_LINES,          // up to a newline; a reply gets one at its end
  kUser = RUBATO_FRAMING_USER,            // by Application::frame; replies are sent as they are
  kRpc = RUBATO_FRAMING_RPC,              // Rubato RPC, whose clients have credits
};

// The request that Application::frame finds at the start of the bytes it is given. Unit: bytes.
struct Frame {
  // More bytes are needed. The whole request will take `length_bytes`; 0 = not known.
  static Frame incomplete(size_t length_bytes = 0) {
    return {RUBATO_FRAME_INCOMPLETE, {length_bytes, 0, 0}};
  }
  // The request takes `length_bytes`, at least 1, and all of them are its payload.
  static Frame complete(size_t length_bytes) {
    return {RUBATO_FRAME_COMPLETE, {length_bytes, 0, length_bytes}};
  }
  // The same, but the payload is the given part of the request.
  static Frame complete(size_t length_bytes, size_t payload_offset, size_t payload_bytes) {
    return {RUBATO_FRAME_COMPLETE, {length_bytes, payload_offset, payload_bytes}};
  }
  // The request is refused and the connection closed.
  static Frame malformed() { return {RUBATO_FRAME_MALFORMED, {0, 0, 0}}; }

  int state;
  rubato_frame where;
};

// The class that Application::classify gives a request when the request arrives.
struct Class {
  uint32_t type = 0;        // 0 .. 255, chosen by the application; statistics are kept per type
  bool is_long = false;     // the request may be preempted from the start
  uint32_t priority = 0;    // of a long request: 0 .. 7, 0 is the most urgent level (Synergy 7.4)
  bool is_control = false;  // control plane (a health check): keeps a share under any load
  // The time after the arrival when the reply is of no more use; 0 = no deadline.
  std::chrono::nanoseconds deadline{};
};

// The reason why a request is refused.
enum class Refusal : int {
  kOverload = RUBATO_REFUSED_OVERLOAD,    // full queues, too long a wait, a passed deadline, a stop
  kFailed = RUBATO_REFUSED_FAILED,        // the connection will be closed, as with the next two
  kMalformed = RUBATO_REFUSED_MALFORMED,
  kTooLarge = RUBATO_REFUSED_TOO_LARGE,
};

}  // namespace rubato::inline v1
