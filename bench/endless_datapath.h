// SPDX-License-Identifier: Apache-2.0
//
// EndlessDatapath: a datapath for benchmarks that costs nearly nothing. One queue, one worker;
// every poll hands out all requests that are not in flight, until `stop_after` have been finished;
// then it calls `on_done` (which stops the runtime). Used from the one worker only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"

namespace rubato::bench {

class NullSession final : public Session {
 public:
  Frame frame(std::string_view, Request&) override { return {FrameState::kIncomplete, 0}; }
  void refuse(Request&) override {}
};

class EndlessDatapath final : public Datapath, public DatapathQueue {
 public:
  explicit EndlessDatapath(uint32_t requests) : requests_(requests) {
    for (Request& request : requests_) {
      request.session = &session_;
      request.reply = &reply_;
      request.datapath = this;
      free_.push_back(&request);
    }
  }

  uint64_t stop_after = ~uint64_t{0};
  std::function<void()> on_done;

  uint32_t poll(std::span<Request*> out) override {
    uint32_t n = 0;
    if (finished_ >= stop_after) return 0;
    const Instant at = now();
    while (n < out.size() && !free_.empty()) {
      Request* request = free_.back();
      free_.pop_back();
      reset(*request, at);
      out[n++] = request;
    }
    return n;
  }
  bool pending() const override { return !free_.empty(); }
  Request* finish(Request& request) override {
    free_.push_back(&request);
    if (++finished_ == stop_after && on_done) on_done();
    return nullptr;
  }
  void flush(Request&) override {}
  void wait(Nanos) override {}
  void wake() override {}

  uint32_t queues() const override { return 1; }
  DatapathQueue& queue(WorkerId) override { return *this; }
  void drain() override {}
  uint64_t in_flight() const override { return requests_.size() - free_.size(); }
  DatapathStats stats() const override { return {}; }
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }

 private:
  static void reset(Request& request, Instant at) {
    const RequestState fresh;  // as StreamFlow does
    static_cast<RequestState&>(request) = fresh;
    request.arrived = at;
    request.type = 1;
  }

  NullSession session_;
  ReplyBuffer reply_;
  std::vector<Request> requests_;
  std::vector<Request*> free_;
  uint64_t finished_ = 0;
};

}  // namespace rubato::bench
