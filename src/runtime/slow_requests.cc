// SPDX-License-Identifier: Apache-2.0
#include "runtime/slow_requests.h"

#include "base/log.h"

namespace rubato {
namespace {

int64_t micros(Nanos time) { return time.count() / 1000; }

}  // namespace

void log_slow_request(std::string_view type, const Completion& times, std::string_view blocker) {
  if (times.blocker_service == Nanos()) {
    return log_line(LogLevel::kInfo, LogEvent::kSlow, "a request took long",
                    {{"type", type},
                     {"wait_us", micros(times.wait)},
                     {"service_us", micros(times.service)},
                     {"preemptions", times.preemptions}});
  }
  log_line(LogLevel::kInfo, LogEvent::kSlow, "a request took long",
           {{"type", type},
            {"wait_us", micros(times.wait)},
            {"service_us", micros(times.service)},
            {"preemptions", times.preemptions},
            {"behind", blocker},
            {"behind_us", micros(times.blocker_service)}});
}

}  // namespace rubato
