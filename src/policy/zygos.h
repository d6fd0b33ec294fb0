// SPDX-License-Identifier: Apache-2.0
//
// ZygOS: a worker that runs dry looks at the queues of all others, draws one of those that hold
// something, and takes the one request at its head. Its system takes a connection with all that is
// ready there; here a flow whose order is kept has one in flight, the same. Pure; policy/contract.h
// says when the host calls what.
#pragma once

#include "base/check.h"
#include "policy/steal.h"

namespace rubato {

class Zygos : public Steal {
 public:
  static constexpr const char* kName = "zygos";
  static constexpr const char* kSummary =
      "inbox per worker; an idle worker steals one request of a random other";
  static constexpr const char* kSource = "ZygOS, SOSP 2017, section 4";

  explicit constexpr Zygos(Config config) : Steal(config) {}

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (Job* job = host.take(inbox(me.value))) return job;
    const uint32_t victim = draw_victim(me, host);
    return victim != me.value ? host.steal(inbox(victim), inbox(me.value), 1) : nullptr;
  }

 private:
  // One of the workers that hold something, each as likely; `me` if there is none.
  template <class H>
  uint32_t draw_victim(WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    uint32_t victim = me.value;
    uint32_t found = 0;
    for (uint32_t step = 1; step < workers; ++step) {
      step += verb::find_deeper(host, 0, (me.value + step) % workers, workers - step, 0);
      if (step >= workers) break;
      if (host.random(++found) == 0) victim = (me.value + step) % workers;
    }
    RUBATO_DCHECK((victim == me.value) == (found == 0));
    return victim;
  }
};

}  // namespace rubato
