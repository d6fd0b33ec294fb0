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
//   more      so many are in service at once, and replies leave as they are finished. A request has
//             its own bytes, reply buffer and RequestData, which belong to the worker that runs it;
//             the session belongs to the flow's owner (datapath/flow_ownership.h), who frames
//             requests and completes them, and must not be touched by others.
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

class DatapathQueue;
class Session;
class StreamFlow;

// What an application keeps of one request.
struct RequestData {
  virtual ~RequestData() = default;
};

// What a datapath knows of a flow's peer. It only ever moves forward.
enum class ClientState : uint8_t {
  kOpen,        // it may send more
  kHalfClosed,  // it has sent its last byte, and may still read (shutdown), or not (close)
  kGone,        // it reads no more: a reset, an error of the connection, or we have closed the flow
};

struct Request : RequestState {
  std::string_view payload;          // one whole request; valid until the request is finished
  ReplyBuffer* reply = nullptr;      // append the reply here while the request runs
  Session* session = nullptr;        // the application's state of the flow
  RequestData* data = nullptr;       // made by the session, and used again for later requests
  DatapathQueue* datapath = nullptr; // where to finish it
  StreamFlow* stream = nullptr;      // the datapath's
  // Of its flow, relaxed: nothing else is read for what it says. Null = kOpen.
  const std::atomic<ClientState>* client = nullptr;
};

enum class FrameState : uint8_t {
  kComplete,    // `length_bytes` of the input are one request
  kIncomplete,  // more input is needed; `length_bytes` is a hint how much in all, 0 = unknown
};

struct Frame {
  FrameState state = FrameState::kIncomplete;
  size_t length_bytes = 0;
};

// Per-flow state made by the application's protocol. All calls but refuse() and admits() come from
// the flow's owner of the moment, never two at once.
class Session {
 public:
  virtual ~Session() = default;

  // How many requests of the flow may be in service at once; asked once. With 1 they keep their
  // order.
  virtual uint32_t concurrency() const { return 1; }
  // For each request object of the flow, once; null = none is needed.
  virtual std::unique_ptr<RequestData> make_request_data() { return nullptr; }

  // Finds the first request in `unread`; it starts at unread[0]. `request` says when its last
  // bytes arrived, and its flow. If complete, may set type, size_hint, deadline, control, at_once,
  // credited and nothing else of it. Views into `unread` stay valid until the request is finished
  // if the flow keeps the order; else until this returns, and the payload of the request is a copy.
  // Malformed input is a complete request too: the application answers it with an error and sets
  // close_after when it runs. Called again with more input after kIncomplete.
  virtual Frame frame(std::string_view unread, Request& request) = 0;

  // The runtime does not take the request, for request.refusal: append an explicit refusal. Cheap,
  // as an overloaded server does it more often than it serves. Called where the request is.
  virtual void refuse(Request& request) = 0;

  // The turn has come of a request that frame() marked credited. False: it has waited too long, and
  // refuse() follows. Called where the request is.
  virtual bool admits(Request& request) {
    static_cast<void>(request);
    return true;
  }

  // A request that frame() marked at_once: append the reply, if there is one. Such requests are
  // answered where they arrive; in flows that keep the order, after a run of them, by the
  // application, which calls this.
  virtual void answer(Request& request) { refuse(request); }

  // In flows that do not keep the order: the request is finished, request.reply is what the worker
  // left. Append to `to` what is to be sent.
  virtual void complete(Request& request, ReplyBuffer& to) { to.append(request.reply->unsent()); }

  // Datapath::push request was called, or the flow goes on for another reason, and all replies of
  // finished requests have left: append what the client has not asked for, if anything.
  virtual void on_push(ReplyBuffer& reply) { static_cast<void>(reply); }
};

// The other end of a flow.
struct Peer {
  uint64_t flow = 0;    // unique within the process life, starts at 1
  std::string address;  // "127.0.0.1:54321", or a name for in-process peers
  uint32_t port = 0;    // by which of the datapath's ports it came, in their order
};

// Makes sessions. Called from any worker; must be thread safe.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual std::unique_ptr<Session> open(const Peer& peer) = 0;

  // Asked of each connection over TCP, before open: what to answer those who are not served, which
  // are then closed and count as refused. Empty = welcome.
  virtual std::string refusal_for(const Peer& peer) {
    static_cast<void>(peer);
    return {};
  }
};

}  // namespace rubato
