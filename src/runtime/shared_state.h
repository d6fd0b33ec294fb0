// SPDX-License-Identifier: Apache-2.0
//
// SharedState: the state that all contexts of one runtime may read and write beside the queues: the
// workers' hints, the managers' mailboxes, and the steering of flows. Built before the workers
// start; every method from any thread.
//
// Memory order: a hint orders nothing else, so hints are relaxed; a message is ordered by its ring
// (mechanism/queue/mpmc_queue.h), and with it the sender's changes to the jobs.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "datapath/datapath.h"
#include "mechanism/queue/mpmc_queue.h"
#include "policy/extensions.h"

namespace rubato {

class SharedState {
 public:
  // `datapath` may be null: no flow can be moved then.
  SharedState(uint32_t workers, uint32_t managers, Datapath* datapath)
      : hints_(workers), datapath_(datapath) {
    for (uint32_t m = 0; m < managers; ++m) {
      mailboxes_.push_back(std::make_unique<MpmcQueue<Message>>(limits::kMailbox));
    }
  }

  uint64_t hint(WorkerId worker) const {
    return hints_[worker.value].load(std::memory_order_relaxed);
  }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    return hints_[worker.value].compare_exchange_strong(seen, value, std::memory_order_relaxed);
  }

  bool send(ManagerId to, const Message& message) { return mailboxes_[to.value]->put(message); }
  bool receive(ManagerId me, Message& message) { return mailboxes_[me.value]->take(message); }

  bool steer(uint64_t flow, WorkerId to) {
    return datapath_ != nullptr && datapath_->steer(flow, to);
  }
  bool unsteer(uint64_t flow) { return datapath_ != nullptr && datapath_->unsteer(flow); }

 private:
  std::vector<std::atomic<uint64_t>> hints_;
  std::vector<std::unique_ptr<MpmcQueue<Message>>> mailboxes_;
  Datapath* datapath_;
};

}  // namespace rubato
