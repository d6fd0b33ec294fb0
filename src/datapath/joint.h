// SPDX-License-Identifier: Apache-2.0
//
// JointDatapath: connections and datagrams under one runtime. Each worker's queue is that of the
// TcpDatapath and, as its guests, those of the others; polls take turns in who comes first. A
// request belongs to the datapath that it came by and is finished there. The worker sleeps in the
// epoll instance of its TCP queue, which has the descriptors of the guests too, so one system call
// looks after all.
//
// Numbers of flows must differ between the datapaths (rpc::UdpOptions::first_flow).
//
// Threads: as datapath.h says. Borrows the datapaths, which must outlive it.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "datapath/datapath.h"
#include "datapath/guest_queue.h"
#include "datapath/tcp.h"

namespace rubato {

class JointQueue;

class JointDatapath final : public Datapath {
 public:
  // The queues of `guests`, as many as those of `tcp`, are GuestQueues that can sleep. Fails with
  // one line where epoll does not take their descriptors.
  static Result<std::unique_ptr<JointDatapath>> open(TcpDatapath& tcp,
                                                     const std::vector<Datapath*>& guests);
  ~JointDatapath() override;

  uint32_t queues() const override { return datapaths_.front()->queues(); }
  DatapathQueue& queue(WorkerId worker) override;
  Nanos begin_drain() override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override;
  bool close_flow(uint64_t flow) override;
  bool steer(uint64_t flow, WorkerId to) override;
  bool unsteer(uint64_t flow) override;
  bool request_push(uint64_t flow) override;

 private:
  JointDatapath();
  template <class F>
  bool any(F&& does) const;

  std::vector<Datapath*> datapaths_;  // that of TCP is the first
  std::vector<std::unique_ptr<JointQueue>> queues_;
};

}  // namespace rubato
