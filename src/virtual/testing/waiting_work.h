// SPDX-License-Identifier: Apache-2.0
//
// WaitingWork: what waits for the workers of a runtime, at its connections and in the queues of its
// policy, for Watch. For tests; any thread, while both live.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "datapath/datapath.h"
#include "runtime/runtime.h"
#include "runtime/testing/live_policies.h"

namespace rubato::virt::testing {

class WaitingWork {
 public:
  WaitingWork(const Runtime& runtime, Datapath& datapath,
              const rubato::testing::LivePolicy& policy)
      : runtime_(runtime), datapath_(datapath), policy_(policy) {}

  // Something has come to the connections of that worker.
  bool has_come(uint32_t worker) { return datapath_.queue({worker}).pending(); }
  // A request waits in a queue of its own, that no other one takes from.
  bool is_queued(uint32_t worker) const {
    const std::vector<std::string>& own = policy_.own_queues;
    return !own.empty() && any_queue([&](const QueueDepth& queue) {
      return queue.index == worker && std::find(own.begin(), own.end(), queue.name) != own.end();
    });
  }
  // A request waits where every worker may take it.
  bool is_for_all() const {
    return policy_.shares_queues &&
           any_queue([](const QueueDepth& queue) { return is_shared(queue.name); });
  }

 private:
  template <class Which>
  bool any_queue(Which&& which) const {
    for (const QueueDepth& queue : runtime_.queue_depths()) {
      if (queue.depth > 0 && which(queue)) return true;
    }
    return false;
  }
  static bool is_shared(const std::string& queue) {
    return queue != "inbox" && queue != "local" && queue != "queue" && queue != "block";
  }

  const Runtime& runtime_;
  Datapath& datapath_;
  const rubato::testing::LivePolicy policy_;
};

}  // namespace rubato::virt::testing
