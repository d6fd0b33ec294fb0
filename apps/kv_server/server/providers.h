// SPDX-License-Identifier: Apache-2.0
//
// The interfaces that the key-value application needs from its host program. The program implements
// both and lends them for the life of the application. All methods may be called from any worker;
// none is on the hot path.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "metrics/histogram.h"

namespace rubato::kv {

// Per request type (an index into the command table), over all workers.
class LatencySource {
 public:
  virtual ~LatencySource() = default;

  // Wait + service of the finished requests of a type: the time as the client feels it.
  virtual Histogram total_time(uint32_t type) = 0;
  // Time on workers alone; CONFIG RESETSTAT and LATENCY RESET do not clear what they do not name.
  virtual Nanos service_time(uint32_t type) = 0;
  // Resets both to zero: CONFIG RESETSTAT.
  virtual void reset() = 0;
};

class ServerControl {
 public:
  using Lines = std::vector<std::pair<std::string, std::string>>;

  virtual ~ServerControl() = default;

  // The lines of INFO scheduler: keys in snake case, with their unit at the end.
  virtual Lines scheduler_info() = 0;
  // The lines of INFO overload.
  virtual Lines overload_info() = 0;

  // From now on Application::slow is called for requests whose wait + service is at least this
  // (Nanos::max() = never).
  virtual void set_slow_threshold(Nanos threshold) = 0;

  // The options of the scheduler, which CONFIG GET shows ("target-delay"), with their values.
  virtual Lines scheduler_options() = 0;
  // CONFIG SET of some of them: all or none. Fails with one line, also where one takes a restart.
  virtual Status set_scheduler_options(const Lines& wanted) = 0;

  // CONFIG SET maxclients and timeout (0 = never).
  virtual void set_max_flows(uint32_t flows) = 0;
  virtual void set_idle_timeout(Nanos limit) = 0;

  // Runs `work`, which may block, on a thread that is no worker. False: other work runs there, and
  // nothing was done. The end of the server waits for the work.
  virtual bool run_aside(std::function<void()> work) = 0;

  // SHUTDOWN: drain and end, as SIGTERM does.
  virtual void shut_down() = 0;
};

}  // namespace rubato::kv
