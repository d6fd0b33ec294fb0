// SPDX-License-Identifier: Apache-2.0
//
// The driver calls hooks in the contract's order, shown by a policy that writes down every call,
// and it notices policies that lose jobs.
#include "policy/testing/drive.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace rubato {
namespace {

using testing::Arrival;
using testing::drive;
using testing::DriveReport;

using Log = std::vector<std::string>;

// Processor sharing with a diary. The flows number the arrivals.
struct RecordingPolicy {
  static constexpr const char* kName = "diary";
  static constexpr const char* kSummary = "";
  static constexpr const char* kSource = "";
  static constexpr Preempts kPreempts = Preempts::kLong;
  static constexpr std::array<QueueDeclaration, 1> kQueues{
      {{"all", Scope::kGlobal, Sharing::kShared}}};
  struct Config {
    Log* log = nullptr;
    Nanos period = Nanos::max();
  };
  using Worker = None;
  using Central = None;
  struct Plan {
    int number = 0;
  };
  explicit RecordingPolicy(Config c) : config(c) {}

  void note(const char* hook, uint64_t flow) const {
    config.log->push_back(std::string(hook) + " " + std::to_string(flow));
  }
  template <class H>
  QueueRef route(const Job& job, WorkerId, H&) const {
    note("route", job.flow);
    return {};
  }
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    Job* const job = host.take(QueueRef{});
    if (job != nullptr) note("next", job->flow);
    return job;
  }
  template <class H>
  Nanos quantum(const Worker&, const Job& job, H&) const {
    note("quantum", job.flow);
    return Nanos(10);
  }
  template <class H>
  SliceDecision expired(const Job& job, WorkerId, H& host) const {
    note("expired", job.flow);
    return host.depth(QueueRef{}) > 0 ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }
  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId, H&) const {
    note("requeue", job.flow);
    return {};
  }
  void finished(Worker&, const Job& job, Nanos) const { note("finished", job.flow); }
  template <class H>
  Plan adapt(Central&, H& host) const {
    note("adapt", static_cast<uint64_t>(host.plan().number));
    return {host.plan().number + 1};
  }
  Nanos adapt_period() const { return config.period; }

  Config config;
};

TEST(Drive, hooks_come_in_the_order_of_the_contract) {
  Log log;
  const std::array<Arrival, 2> arrivals{{{.service = Nanos(25), .job_class = JobClass::kLong},
                                         {.at = Instant(15), .service = Nanos(3), .flow = 1}}};
  drive<RecordingPolicy>({.log = &log}, arrivals, {.workers = 1});
  EXPECT_EQ(log, (Log{"route 0", "next 0", "quantum 0",     // at 0
                      "expired 0",                          // at 10: renewed
                      "route 1",                            // at 15
                      "expired 0", "requeue 0", "next 1",   // at 20; short: no quantum
                      "finished 1", "next 0", "quantum 0",  // at 23
                      "finished 0"}));                      // at 28
}

TEST(Drive, the_plan_is_published_every_period) {
  Log log;
  const std::array<Arrival, 1> arrivals{{{.service = Nanos(35)}}};
  drive<RecordingPolicy>({.log = &log, .period = Nanos(10)}, arrivals, {.workers = 1});
  EXPECT_EQ(log, (Log{"route 0", "next 0", "adapt 0", "adapt 1", "adapt 2", "finished 0"}));
}

// Takes a job and forgets it.
struct Forgetful : RecordingPolicy {
  using RecordingPolicy::RecordingPolicy;
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    host.take(QueueRef{});
    return nullptr;
  }
};

// Gives the same job out again and again.
struct Doubler : RecordingPolicy {
  using RecordingPolicy::RecordingPolicy;
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    static Job* last = nullptr;
    if (Job* job = host.take(QueueRef{})) last = job;
    return me.value == 0 ? last : nullptr;
  }
};

TEST(Drive, a_policy_that_loses_a_job_is_caught) {
  Log log;
  const std::array<Arrival, 1> arrivals{{{.service = Nanos(5)}}};
  const DriveReport report = drive<Forgetful>({.log = &log}, arrivals);
  EXPECT_EQ(report.violations, (Log{"1 jobs were left behind"}));
}

TEST(Drive, a_policy_that_doubles_a_job_is_caught) {
  Log log;
  const std::array<Arrival, 2> arrivals{{{.service = Nanos(5)}, {.at = Instant(9)}}};
  const DriveReport report = drive<Doubler>({.log = &log}, arrivals);
  EXPECT_FALSE(report.violations.empty());
}

// Only worker 1 serves, but it claims that all are alike.
struct FalseClaim : RecordingPolicy {
  using RecordingPolicy::RecordingPolicy;
  static constexpr bool kInterchangeable = true;
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return me.value == 1 ? host.take(QueueRef{}) : nullptr;
  }
};

// It cuts whether or not somebody waits.
struct FalseCuts : RecordingPolicy {
  using RecordingPolicy::RecordingPolicy;
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr CutsFor cuts_for() { return CutsFor::kAnyQueue; }
  template <class H>
  SliceDecision expired(const Job&, WorkerId, H&) const {
    return SliceDecision::kPreempt;
  }
};

TEST(Drive, a_false_claim_to_cut_for_somebody_only_is_caught) {
  Log log;
  const std::array<Arrival, 1> arrivals{{{.service = Nanos(15)}}};
  const DriveReport report = drive<FalseCuts>({.log = &log}, arrivals, {.workers = 1});
  EXPECT_EQ(report.violations, (Log{"a slice was cut for nobody, against cuts_for"}));
}

TEST(Drive, a_false_claim_of_interchangeable_workers_is_caught) {
  Log log;
  const std::array<Arrival, 1> arrivals{{{.service = Nanos(5)}}};
  const DriveReport report = drive<FalseClaim>({.log = &log}, arrivals);
  EXPECT_EQ(report.violations,
            (Log{"an idle worker found what another had not, against kInterchangeable"}));
}

}  // namespace
}  // namespace rubato
