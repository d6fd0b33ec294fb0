// SPDX-License-Identifier: Apache-2.0
//
// SynergyFlows: Synergy's option `migrate_flows`, by which flows of overloaded workers move to idle
// ones (SBB, 4.5.1). The state belongs to the worker's context; pure.
#pragma once

#include "policy/flow_migration.h"

namespace rubato {

class SynergyFlows {
 public:
  // The worker `me` has looked into its inbox and taken `job`; null = it was empty. SBB judges a
  // worker by what it receives per round; here that is what waits in its inbox.
  template <class H>
  void note_pick(WorkerId me, QueueRef inbox, const Job* job, H& host) {
    const FlowMigration migration{kThresholds};
    if (job == nullptr || picks_++ % kRound == 0) {
      migration.round(worker_, me, host.depth(inbox), host);
    }
    if (job == nullptr) migration.idle(worker_);
    if (job != nullptr) migration.running(worker_, me, *job, host);
  }

  // The worker `me` is about to steal from `victim`, whose flow it takes if one is published.
  template <class H>
  void adopt(WorkerId me, WorkerId victim, H& host) {
    FlowMigration(kThresholds).adopt(worker_, me, victim, host);
  }

 private:
  static constexpr uint32_t kRound = 16;  // picks from the inbox, as the dequeued batch of SBB
  // Flows are moved for what stealing cannot cure: by the higher thresholds.
  static constexpr FlowMigration::Config kThresholds{.published = true};

  uint32_t picks_ = 0;
  FlowMigration::Worker worker_;
};

}  // namespace rubato
