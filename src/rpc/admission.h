// SPDX-License-Identifier: Apache-2.0
//
// AdmissionController: admission by credits (overload/admission.h) for the sessions of one server.
// It adds to the rule a timer thread, locks, the calling worker, and the way to the clients: a
// client that is offered credits without having asked is notified through the datapath.
//
// The path of a request (arrived, classify, started, replied, refused, note_demand, take_offer)
// takes no lock and writes only cache lines of the calling worker and of the session. At most once
// in CreditSettings::update_every for all workers, one of these calls also updates the pool; the
// controller's own thread does so when no call comes. The number of clients notified per turn is
// bounded, so that notifying 10 000 idle sessions delays no request.
//
// Any thread. An AdmittedSession belongs to the flow's owner of the moment; it must stay where it
// is while it is open.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/time.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/queue/live_cells.h"
#include "metrics/counter.h"
#include "overload/admission.h"
#include "overload/latency_by_load.h"
#include "rpc/credit_source.h"
#include "rpc/frames.h"

namespace rubato {
class Datapath;
}

namespace rubato::rpc {

// A mutex whose holder is not preempted. The non-preemptible region encloses the lock.
class PreemptDisablingMutex {
 public:
  void lock() {
    preempt_disable();
    mutex_.lock();
  }
  bool try_lock() {
    preempt_disable();
    if (mutex_.try_lock()) return true;
    preempt_enable();
    return false;
  }
  void unlock() {
    mutex_.unlock();
    preempt_enable();
  }

 private:
  std::mutex mutex_;
};

struct LivePlatform {
  template <class T>
  using Cell = std::atomic<T>;
  using Mutex = PreemptDisablingMutex;
};

using overload::QueuedRequest;

class AdmittedSession : public overload::AdmissionSession<LivePlatform> {
 public:
  // `peer` as in Peer::address; its port does not count.
  explicit AdmittedSession(uint64_t of_flow, std::string_view peer = {})
      : AdmissionSession(of_flow), address_(peer.substr(0, peer.rfind(':'))) {}

 private:
  friend class AdmissionController;
  const std::string address_;
};

struct AdmissionOptions : overload::AdmissionSettings {
  uint32_t max_sessions = 10000;
  uint32_t sessions_per_address = 0;  // 0 = all of them
};

class AdmissionController final : public CreditSource {
 public:
  using Pool = overload::Admission<LivePlatform>::Pool;

  explicit AdmissionController(const AdmissionOptions& options);
  ~AdmissionController() override;
  AdmissionController(const AdmissionController&) = delete;
  AdmissionController& operator=(const AdmissionController&) = delete;

  // The flows of the sessions are flows of this datapath: from now on they are notified, and the
  // controller's thread runs. The datapath must live until detach().
  void attach(Datapath& datapath);
  void detach();

  // Returns the credit to advertise; -1 = the limit on sessions, or on those of one address, is
  // reached (counted).
  int64_t open(AdmittedSession& session, uint32_t demand, Instant now);
  void close(AdmittedSession& session);
  void note_fault();

  // As overload::Admission's, for the calling worker.
  overload::Arrival arrived(AdmittedSession& session, QueuedRequest& request, uint32_t demand,
                            Instant since, Instant now);
  void classify(QueuedRequest& request, bool is_long);
  bool started(QueuedRequest& request, Instant now);
  int64_t replied(AdmittedSession& session, QueuedRequest& request, Nanos in_slices, Instant now);
  int64_t refused(AdmittedSession& session, QueuedRequest& request, Reason reason, Instant now);
  void withdraw(QueuedRequest& request);
  int64_t note_demand(AdmittedSession& session, uint32_t demand, Instant now);
  int64_t take_offer(AdmittedSession& session, Instant now);

  // Answers a probe: what a request that comes now finds and may expect, as of the last update.
  // Latencies are noted for kProbesMatter from a probe on.
  overload::ServerLoad probe(Instant now);

  // One turn of the controller's thread. True = the next turn is due soon.
  bool tick(Instant now);

  Nanos delay(Instant now) const { return admission_.delay(now); }
  // The time that a refused client should wait: until the requests ahead are through.
  Nanos retry_after() const;

  // As of the last update, except for the withheld credits.
  const Pool& pool() const { return admission_.pool(); }
  Pool& pool() { return admission_.pool(); }
  const AdmissionOptions& options() const { return options_; }

  int64_t drained() const override { return pool().drained(); }
  int64_t sessions() const override { return pool().sessions(); }
  int64_t outstanding() const override { return pool().issued() - pool().pending(); }
  void withhold(int64_t credits) override { pool().withhold(credits); }
  void give_back(int64_t credits) override { pool().give_back(credits); }
  CreditReport report() const override;

  struct Counts : overload::Admission<LivePlatform>::Counts {
    uint64_t opened = 0;
    uint64_t sessions_refused = 0;             // sessions over the limit
    uint64_t refused_of_address = 0;  // sessions over the limit of their address
    uint64_t faults = 0;              // sessions that were ended for a faulty frame
    uint64_t offered = 0;             // offers of credits that the session had not asked for
    uint64_t probes = 0;
  };
  Counts counts() const;

 private:
  static constexpr Nanos kTick = Nanos::millis(1);
  static constexpr Nanos kQuietTick = Nanos::millis(20);
  static constexpr Nanos kProbesMatter = Nanos::seconds(10);
  static constexpr uint32_t kOffersPerTick = 32;
  static constexpr uint32_t kOffersPerRequest = 2;

  uint32_t worker() const;
  bool may_open(const std::string& address);
  void left(const std::string& address);
  void update_if_due(Instant now);
  void notify(std::span<const uint64_t> flows);
  void run();

  const AdmissionOptions options_;
  mutable overload::Admission<LivePlatform> admission_;

  mutable PreemptDisablingMutex sessions_mutex_;  // guards the fields up to faults_
  std::unordered_map<std::string, uint32_t> of_address_;  // sessions, where addresses have a limit
  uint32_t open_sessions_ = 0;
  uint64_t opened_ = 0;
  uint64_t refused_ = 0;
  uint64_t refused_of_address_ = 0;
  uint64_t faults_ = 0;

  std::atomic<uint64_t> offered_{0};
  std::atomic<uint64_t> probes_{0};
  overload::LatencyByLoad<LiveCells> latencies_;
  LiveCells::Count<int64_t> probed_until_ns_{0};  // that long latencies are noted
  std::atomic<Datapath*> datapath_{nullptr};
  std::mutex thread_mutex_;  // guards stopping_
  std::condition_variable thread_wakes_;
  bool stopping_ = false;
  std::thread thread_;
};

// Attaches the controller to a datapath for the life of this object.
class AdmissionAttachment {
 public:
  AdmissionAttachment(AdmissionController& admission, Datapath& datapath) : admission_(admission) {
    admission_.attach(datapath);
  }
  ~AdmissionAttachment() { admission_.detach(); }
  AdmissionAttachment(const AdmissionAttachment&) = delete;
  AdmissionAttachment& operator=(const AdmissionAttachment&) = delete;

 private:
  AdmissionController& admission_;
};

}  // namespace rubato::rpc
