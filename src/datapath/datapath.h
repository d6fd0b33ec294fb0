// SPDX-License-Identifier: Apache-2.0
//
// The datapath as the runtime sees it: one DatapathQueue per worker (burst in, reply out), and the
// Datapath that owns the queues. Virtual calls are per burst or per request, never per byte.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "datapath/request.h"

namespace rubato {

// One worker's receive queue.
class DatapathQueue {
 public:
  virtual ~DatapathQueue() = default;

  // Takes requests that have arrived, at most out.size(), with `arrived` set as truly as is known
  // (kernel timestamp, else the time of this poll). Normally called by the queue's own worker;
  // an idle worker may call it for a worker that is stuck. One caller at a time: a second
  // concurrent caller gets 0 at once.
  virtual uint32_t poll(std::span<Request*> out) = 0;

  // True if poll would probably find something (looks into the kernel). Any thread.
  virtual bool pending() const = 0;

  // The worker that ran the request calls this once the request is handled and its reply appended.
  // Returns the next complete request of the same flow if its bytes are already here (the replies
  // of the flow are then coalesced until the flow runs dry, `flush`, or a size bound), else sends
  // the replies and returns null. The request object belongs to the datapath again.
  virtual Request* finish(Request& request) = 0;

  // Sends the unsent replies to the requests of the flow before this unfinished one, which is not
  // to keep them waiting. Called by the request's owner.
  virtual void flush(Request& request) = 0;

  // Sends at most `size_bytes` of what is unsent, this request's reply as far as it is there
  // included. True = more remains and the peer takes more: call again, perhaps after a checkpoint.
  // A datapath that does not send in pieces only flushes and returns false.
  virtual bool flush_some(Request& request, size_t size_bytes) {
    static_cast<void>(size_bytes);
    flush(request);
    return false;
  }

  // The end of a burst: sends what this queue has put off, that is replies of requests that its
  // worker has finished, wherever they came in (datapath/datagram.h); cheap if there is nothing.
  // Called by the owner before each poll, where a running request may lose its worker (the ends of
  // slices, and checkpoints once a poll is due), before it resumes a request, and before it starts
  // one that is known to be long or that has no end of a slice.
  virtual void push() {}

  // Finds out whether the client of this unfinished request is gone, sooner than a poll would, and
  // updates `request.client`. Called by the request's owner.
  virtual void look_at_client(Request& request) { static_cast<void>(request); }

  // Pushes, then blocks the owner until an event arrives, wake() is called, or `limit` is over.
  virtual void wait(Nanos limit) = 0;

  // Ends the owner's present or next wait. Any thread.
  virtual void wake() = 0;

  // False: the owner lives in a loop that somebody else runs, and beside the workers there is no
  // thread that looks after them.
  virtual bool is_looked_after() const { return true; }

  // The owner is about to look for what others are late with, and then to wait; or that is over.
  // Called by the owner.
  virtual void note_idle(bool idle) { static_cast<void>(idle); }

  // True: the owner's thread is wanted for something else. The request that runs gives the worker
  // back at the end of its slice, and the next poll lends the thread. Called by the owner.
  virtual bool recalls() const { return false; }

  // The owner goes away for a while: until delegate_to(nullptr), every event of this queue ends a
  // wait of `proxy`, the proxy poller, which then polls this queue. Events from before the call can
  // be polled; if the proxy poller is already waiting, the caller must wake() it. Called by the
  // owner; false = not possible here.
  virtual bool delegate_to(DatapathQueue* proxy) {
    static_cast<void>(proxy);
    return false;
  }
  // As wait, for a proxy poller: `delegated` are the queues that the poller polls now.
  virtual void wait(Nanos limit, std::span<DatapathQueue* const> delegated) {
    static_cast<void>(delegated);
    wait(limit);
  }
};

// The limit of a wait that an event or wake() ends. A thread looks now and then in any case.
inline Nanos longest_wait(const DatapathQueue& queue) {
  return queue.is_looked_after() ? Nanos::millis(250) : Nanos::max();
}

// One flow, as CLIENT LIST and the metrics show it.
struct FlowInfo {
  uint64_t flow = 0;
  std::string peer;
  std::string local;
  int fd = -1;
  Nanos age;
  Nanos idle;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  size_t unsent_bytes = 0;
  Session* session = nullptr;  // only for fields that the session itself guards
};

struct DatapathStats {
  uint64_t flows_open = 0;
  uint64_t flows_accepted = 0;
  uint64_t flows_refused = 0;       // over max_flows, or refused by the protocol
  uint64_t flows_timed_out = 0;     // idle longer than idle_timeout
  uint64_t flows_overflowed = 0;    // reply buffer over its limit
  uint64_t flows_input_limit = 0;   // unframed input over its limit
  uint64_t flows_steered = 0;       // moves to a queue that is not the flow's first
  uint64_t flows_unsteered = 0;     // moves back to the first
  uint64_t flows_migrated = 0;          // open, and not at their first queue now
  uint64_t requests = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  // As in ZerocopyCounts (sent_pages.h).
  uint64_t zerocopy_sends = 0;
  uint64_t zerocopy_copied = 0;
  uint64_t zerocopy_refused = 0;
};

class Datapath {
 public:
  virtual ~Datapath() = default;

  virtual uint32_t queues() const = 0;
  virtual DatapathQueue& queue(WorkerId worker) = 0;

  // The order to stop has come: take no new flows from now on. Returns for how long drain() should
  // wait, so that flows which are new can send their first request. Any thread.
  virtual Nanos begin_drain() { return {}; }
  // Draining: take no new flows and no new requests; requests in flight still finish. Any thread.
  virtual void drain() = 0;
  // Requests polled and not yet finished, plus replies not yet sent. Any thread.
  virtual uint64_t in_flight() const = 0;
  // True: while it drains, in_flight() comes to 0 by a worker that is awake, or wakes one. False:
  // workers look now and then.
  virtual bool tells_end() const { return false; }

  // Any thread.
  virtual DatapathStats stats() const = 0;
  // Reaches a checkpoint every few flows, with no lock held there; `visit` runs with one.
  virtual void for_each_flow(const std::function<void(const FlowInfo&)>& visit) = 0;
  // Closes the flow soon; false = no such flow. Any thread.
  virtual bool close_flow(uint64_t flow) = 0;
  // A worker is about to finish a request that the datapath counts (RequestState::counted_as), and
  // that is no longer counted then. Any thread.
  virtual void ended(Request& request) { static_cast<void>(request); }

  // From its next request on, `flow` (Job::flow) comes in by the queue of `to`. A polled request
  // stays where it is and is finished first; the requests behind it in the pipeline move along, and
  // replies keep their order. False: there is no such flow, the flow is there or on its way
  // already, or the datapath cannot move it (no such queue, draining). The flow may still close, or
  // be steered elsewhere, before it has moved; `flows_steered` counts completed moves. Any thread;
  // takes no lock that a request takes.
  virtual bool steer(uint64_t flow, WorkerId to) {
    static_cast<void>(flow);
    static_cast<void>(to);
    return false;
  }
  // The same, back to the queue that the flow was first put to.
  virtual bool unsteer(uint64_t flow) {
    static_cast<void>(flow);
    return false;
  }

  // Has Session::on_push of `flow` called soon, on a worker: at once if the flow is idle, else when
  // its request is finished and the peer has taken the bytes sent before. on_push sees the writes
  // that the caller made before this call. False: there is no such flow, or the datapath does not
  // push. Any thread; takes no lock that a request takes.
  virtual bool request_push(uint64_t flow) {
    static_cast<void>(flow);
    return false;
  }
};

}  // namespace rubato
