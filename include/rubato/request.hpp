// SPDX-License-Identifier: Apache-2.0
//
// Request: one request while it runs, and what can be said of a request before that (Frame, Class).
// A Request refers to the server's and owns nothing: it is valid, on the worker that runs it, until
// the handler returns or the request is sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// State of one connection, made by Application::connected. Used by one worker at a time.
struct Connection {
  virtual ~Connection() = default;
};

class Request {
 public:
  explicit Request(rubato_request* c = nullptr) : c_(c) {}

  // False: there is none, recv() says that the server stops.
  explicit operator bool() const { return c_ != nullptr; }

  // One request without its framing; valid as long as the request.
  std::string_view payload() const {
    size_t size = 0;
    const char* bytes = rubato_request_payload(c_, &size);
    return {bytes, size};
  }

  // Appends to the reply. False: over Options::max_reply_bytes, the request has failed.
  bool reply(std::string_view bytes) {
    return rubato_request_reply(c_, bytes.data(), bytes.size()) == RUBATO_OK;
  }

  // Closes the connection once the reply has been sent.
  void close_after_reply() { rubato_request_close_after(c_); }
  // Refuses the request and closes the connection, as if the handler had thrown.
  void fail() { rubato_request_fail(c_); }

  // Nobody wants the reply any more, as a checkpoint has said or is about to.
  bool cancelled() const { return rubato_request_cancelled(c_) != 0; }

  uint32_t type() const { return rubato_request_type(c_); }  // as the classifier said, else 0
  uint32_t preemptions() const { return rubato_request_preemptions(c_); }  // so far
  uint64_t connection_id() const { return rubato_request_connection_id(c_); }
  // In Application::refuse, for an overload: sooner it is in vain to ask again; zero = not known.
  std::chrono::nanoseconds retry_after() const {
    return std::chrono::nanoseconds(rubato_request_retry_after_ns(c_));
  }

  // What Application::connected made, which must be a T; null if it made nothing.
  template <class T>
  T* connection() const {
    return static_cast<T*>(static_cast<Connection*>(rubato_request_connection(c_)));
  }

  rubato_request* c() const { return c_; }

 private:
  rubato_request* c_;
};

enum class Framing : uint32_t {
  kLengthPrefix = RUBATO_FRAMING_LENGTH,  // four bytes, big-endian, in both directions
  kLines = RUBATO_FRAMING_LINES,          // up to a newline; a reply gets one at its end
  kUser = RUBATO_FRAMING_USER,            // Application::frame; replies are sent as they are
  kRpc = RUBATO_FRAMING_RPC,              // Rubato RPC, whose clients have credits
};

// What Application::frame finds at the start of the bytes it is shown.
struct Frame {
  static Frame incomplete(size_t length_bytes = 0) {
    return {RUBATO_FRAME_INCOMPLETE, {length_bytes, 0, 0}};
  }
  // The request takes so many bytes, at least 1, and all of them are its payload.
  static Frame complete(size_t length_bytes) {
    return {RUBATO_FRAME_COMPLETE, {length_bytes, 0, length_bytes}};
  }
  static Frame complete(size_t length_bytes, size_t payload_offset, size_t payload_bytes) {
    return {RUBATO_FRAME_COMPLETE, {length_bytes, payload_offset, payload_bytes}};
  }
  // To be refused, and the connection closed.
  static Frame malformed() { return {RUBATO_FRAME_MALFORMED, {0, 0, 0}}; }

  int state;
  rubato_frame where;
};

// What Application::classify says of a request when it arrives.
struct Class {
  uint32_t type = 0;        // 0 .. 255, the application's own; statistics are kept by it
  bool is_long = false;     // may be preempted from the start
  uint32_t priority = 0;    // of long ones: 0 .. 7, 0 is the most urgent level (Synergy 7.4)
  bool is_control = false;  // control plane (a health check): keeps a share under any load
  std::chrono::nanoseconds deadline{};  // after its arrival nobody wants the reply; 0 = none
};

// Why Application::refuse is asked for a reply.
enum class Refusal : int {
  kOverload = RUBATO_REFUSED_OVERLOAD,    // queues full, waited too long, or the server is stopping
  kFailed = RUBATO_REFUSED_FAILED,        // these three: the connection will be closed
  kMalformed = RUBATO_REFUSED_MALFORMED,
  kTooLarge = RUBATO_REFUSED_TOO_LARGE,
};

}  // namespace rubato::inline v1
