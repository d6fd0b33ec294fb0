// SPDX-License-Identifier: Apache-2.0
//
// DatagramQueue: one worker's queue, and the requests that have come in by it. The poll lock guards
// what poll() and wait() use; requests come back by a list that any worker pushes to.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "datapath/datagram_datapath.h"
#include "datapath/guest_queue.h"
#include "datapath/poll_lock.h"
#include "datapath/push_list.h"
#include "metrics/counter.h"

namespace rubato {

// A request in the frame that its datagram came in. Its owner is the worker that runs it, and the
// queue otherwise.
struct DatagramRequest : Request {
  static constexpr size_t kKeptBytes = ReplyBuffer::kFirstCapacity;

  Datagram datagram;
  ReplyBuffer reply_in_frame{std::span<char>()};
  ReplyBuffer reply_of_parts;  // in its place, where a reply may have several datagrams
  std::unique_ptr<RequestData> own_data;
  DatagramRequest* next_in_list = nullptr;
  // FlowOrder's.
  DatagramRequest* next_of_flow = nullptr;
  DatagramRequest* next_flow = nullptr;     // these three of a flow's first request
  DatagramRequest* last_of_flow = nullptr;
  uint32_t waiting_of_flow = 0;
};

// Finished requests on their way back to the queue that they came in by. Any thread but for
// take_all(), the poller's.
class FinishedRequests {
 public:
  void push(DatagramRequest& request) {
    list_.push(request);
    count_.fetch_add(1, std::memory_order_release);
  }
  DatagramRequest* take_all() { return list_.take_all(); }
  // Since the start.
  uint64_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  PushList<DatagramRequest> list_;
  alignas(limits::kCacheLineBytes) std::atomic<uint64_t> count_{0};
};

class DatagramQueue final : public GuestQueue {
 public:
  // `all` is filled before the first poll.
  DatagramQueue(DatagramDatapath::Shared& shared, WorkerId worker, Protocol& protocol,
                const std::vector<std::unique_ptr<DatagramQueue>>& all);

  uint32_t poll(std::span<Request*> out) override;
  bool pending() const override {
    return holds_some_.load(std::memory_order_relaxed) || !put_off_.empty() ||
           wire_queue().pending();
  }
  Request* finish(Request& request) override;
  void flush(Request&) override {}
  void wait_by(Nanos limit, const Sleep& sleep) override;

  // Any thread.
  uint64_t in_flight() const;
  void add_to(DatapathStats& stats) const;
  void add_to(DatagramDatapath::Drops& drops) const;

 private:
  struct Waiting {
    DatagramRequest* request;
    WorkerId old_queue;
  };

  DatagramRequest& take_spare();
  DatagramRequest* take_up(const Datagram& datagram);
  void reply_to(DatagramRequest& request);

  // Where flows keep their order: FlowOrder says how.
  uint32_t poll_in_order(std::span<Request*> out, Instant now, bool late);
  bool receive_in_order(size_t most, Instant now, bool late,
                        std::deque<DatagramRequest*>& runnable);
  void settle(Instant now);
  bool empty_into(std::deque<DatagramRequest*>& runnable, Instant now);
  void enter(DatagramRequest& request, std::deque<DatagramRequest*>& runnable);
  DatagramRequest* end_in_order(DatagramRequest& request, uint32_t& answers);

  DatagramDatapath::Shared& shared_;
  const WorkerId me_;
  const std::vector<std::unique_ptr<DatagramQueue>>& all_;
  const std::unique_ptr<Session> session_;
  Instant last_poll_;
  bool left_some_ = false;  // the last poll was full
  std::deque<DatagramRequest*> runnable_;  // first of their flows, and not passed on yet
  std::vector<Waiting> waiting_;           // for old queues to be emptied, as they came
  std::atomic<bool> holds_some_{false};    // in one of the two; written under the poll lock
  std::array<Datagram, limits::kBurst> arrived_;
  std::vector<std::unique_ptr<DatagramRequest>> requests_;
  DatagramRequest* spare_ = nullptr;
  PushList<DatagramRequest> put_off_;  // first of their flows, for the next poll
  Counter taken_;  // these are the poller's
  Counter no_request_;
  Counter not_served_;
  Counter flow_full_;
  Counter input_bytes_;
  alignas(limits::kCacheLineBytes) std::atomic<bool> polling_{false};
  FinishedRequests finished_;
  std::atomic<uint64_t> output_bytes_{0};
  std::atomic<uint64_t> too_long_{0};
};

}  // namespace rubato
