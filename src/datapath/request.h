// SPDX-License-Identifier: Apache-2.0
//
// Request: a RequestState with its bytes; and Session, the application's state of one flow
// (connection).
//
// Whether the order of requests is kept is a property of the protocol (Session::concurrency):
//   1         the next request is framed when the previous one is finished. So replies leave in
//             order, a pipelined command sees the effects of the one before it, and everything here
//             (request, session, reply buffer) has one owner at a time: the queue that holds the
//             request, or the worker that runs it.
//   more      so many requests are in service at once, and replies leave as the requests are
//             finished. A request has its own bytes, reply buffer and RequestData, which belong to
//             the worker that runs it; the session belongs to the flow's owner
//             (datapath/flow_ownership.h), which frames requests and completes them, and no other
//             thread touches the session.
// The datapath owns the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "datapath/reply_buffer.h"
#include "sched/request_state.h"

namespace rubato {

class CancelList;
class DatapathQueue;
class Session;
class StreamFlow;

// The application's state of one request.
struct RequestData {
  virtual ~RequestData() = default;
};

// The state of a flow's peer, as far as the datapath knows it. It only ever moves forward.
enum class ClientState : uint8_t {
  kOpen,        // the peer may send more
  kHalfClosed,  // the peer has sent its last byte, and may still read (shutdown), or not (close)
  kGone,        // the peer reads no more: a reset, a connection error, or we have closed the flow
};

struct Request : RequestState {
  std::string_view payload;          // one whole request; valid until the request is finished
  ReplyBuffer* reply = nullptr;      // append the reply here while the request runs
  Session* session = nullptr;        // the application's state of the flow
  RequestData* data = nullptr;       // made by the session, and used again for later requests
  DatapathQueue* datapath = nullptr; // where to finish it
  StreamFlow* stream = nullptr;      // the datapath's
  // The state of the flow's client; null = kOpen. Read with relaxed order, since no other data is
  // read on its word.
  const std::atomic<ClientState>* client = nullptr;
};

enum class FrameState : uint8_t {
  kComplete,    // `length_bytes` of the input are one request
  kIncomplete,  // more input is needed; `length_bytes` hints at the whole length, 0 = unknown
};

struct Frame {
  FrameState state = FrameState::kIncomplete;
  size_t length_bytes = 0;
};

// The state of one flow, made by the application's protocol. All calls but refuse() and admits()
// come from the flow's owner of the moment, never two at once.
class Session {
 public:
  virtual ~Session() = default;

  // How many requests of the flow may be in service at once; called once. With 1 the requests keep
  // their order.
  virtual uint32_t concurrency() const { return 1; }
  // Called once for each request object of the flow; null = the application needs no data.
  virtual std::unique_ptr<RequestData> make_request_data() { return nullptr; }

  // Finds the first request in `unread`, which starts at unread[0]. `request` has the arrival time
  // of the last bytes and the flow. If the request is complete, frame may set its type, size_hint,
  // deadline, control, at_once, credited and no other field. Views into `unread` stay valid until
  // the request is finished if the flow keeps the order; else until this call returns, and the
  // payload of the request is a copy. Malformed input is a complete request too: the application
  // answers it with an error and sets close_after when it runs. After kIncomplete, frame is called
  // again with more input.
  virtual Frame frame(std::string_view unread, Request& request) = 0;

  // The runtime refuses the request, for the reason request.refusal: append an explicit refusal.
  // The call must be cheap, since an overloaded server refuses more often than it serves. Called on
  // the worker that has the request.
  virtual void refuse(Request& request) = 0;

  // A request that frame() marked credited is about to run. False: it has waited too long, and
  // refuse() follows. Called on the worker that has the request.
  virtual bool admits(Request& request) {
    static_cast<void>(request);
    return true;
  }

  // Answers a request that frame() marked at_once: append the reply, if there is one. Such requests
  // are answered where they arrive; in flows that keep the order, the application calls this after
  // a run of such requests.
  virtual void answer(Request& request) { refuse(request); }

  // The waits that end when the request is cancelled; null = the runtime looks at request.client.
  virtual CancelList* cancel_list(const Request& request) {
    static_cast<void>(request);
    return nullptr;
  }

  // In flows that do not keep the order: the request is finished, and request.reply holds the
  // worker's reply. Append the bytes to be sent to `to`.
  virtual void complete(Request& request, ReplyBuffer& to) { to.append(request.reply->unsent()); }

  // Datapath::request_push was called, or the flow goes on for another reason, and all replies of
  // finished requests have left: append the messages that answer no request, if there are any.
  virtual void on_push(ReplyBuffer& reply) { static_cast<void>(reply); }
};

// The other end of a flow.
struct Peer {
  uint64_t flow = 0;    // unique within the process life, starts at 1
  std::string address;  // "127.0.0.1:54321", or a name for in-process peers
  uint32_t port = 0;    // index of the datapath's port by which the flow came
};

// Makes sessions. Called from any worker; must be thread safe.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual std::unique_ptr<Session> open(const Peer& peer) = 0;

  // Called for each flow, before open. Empty = the flow is served; else it counts as refused: a TCP
  // connection gets this answer and is closed, a session over UDP an error of its own protocol.
  virtual std::string refusal_for(const Peer& peer) {
    static_cast<void>(peer);
    return {};
  }
};

}  // namespace rubato
