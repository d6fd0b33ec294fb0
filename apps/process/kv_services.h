// SPDX-License-Identifier: Apache-2.0
//
// KvServices: the services of a live runtime and a TCP datapath for the key-value application:
// latencies as the client sees them, the state of the scheduler and of overload control, limits
// that CONFIG SET changes, BACKUP, SHUTDOWN. Any thread; borrows its arguments and owns the threads
// that expire keys and do what would block a worker.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/tcp.h"
#include "kv_server/server/application.h"
#include "kv_server/server/providers.h"
#include "process/aside.h"
#include "process/best_effort.h"
#include "process/live_options.h"
#include "rpc/admission.h"
#include "rpc/udp.h"
#include "runtime/overload_exposition.h"
#include "runtime/runtime.h"
#include "sched/options.h"

namespace rubato::kv {

class KvServices final : public LatencySource, public ServerControl {
 public:
  // `best_effort` is shown in INFO scheduler, `admission` in INFO overload; both
  // may be null. CONFIG SET starts and ends `recorders` by their keys.
  // `all` is the datapath of every client, `tcp` that of connections, `rpc_udp` that of sessions
  // over UDP, null = there are none.
  KvServices(Runtime& runtime, TcpDatapath& tcp, rpc::UdpDatapath* rpc_udp, Datapath& all,
             KvApplication& application, const BestEffort* best_effort = nullptr,
             const rpc::AdmissionController* admission = nullptr,
             std::vector<LiveRecorder> recorders = {});
  ~KvServices() override;

  Histogram total_time(uint32_t type) override;
  Nanos service_time(uint32_t type) override;
  void reset() override;

  Lines scheduler_info() override;
  Lines overload_info() override;
  Lines scheduler_options() override { return options_.all(); }
  Status set_scheduler_options(const Lines& wanted) override { return options_.set(wanted); }
  void set_slow_threshold(Nanos threshold) override {
    runtime_.settings().set_slow_threshold(threshold);
  }
  void set_max_flows(uint32_t flows) override;
  void set_idle_timeout(Nanos limit) override;
  bool run_aside(std::function<void()> work) override { return aside_.run(std::move(work)); }
  void shut_down() override { runtime_.stop(); }

 private:
  // The figures of a type at the last reset.
  struct Mark {
    Histogram latency;
    double service_ns = 0;
  };

  void expire_keys();

  Runtime& runtime_;
  TcpDatapath& tcp_;
  rpc::UdpDatapath* const rpc_udp_;
  KvApplication& application_;
  const BestEffort* const best_effort_;
  const rpc::AdmissionController* const admission_;
  const LiveOptions options_;
  std::mutex mutex_;  // guards marks_
  std::vector<Mark> marks_;
  std::atomic<bool> stopping_{false};
  std::thread expiry_;
  AsideThread aside_;
};

}  // namespace rubato::kv
