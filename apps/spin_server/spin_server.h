// SPDX-License-Identifier: Apache-2.0
//
// The synthetic server: each request names the service time it wants and gets it as busy work with
// checkpoints. Speaks RESP (requests as arrays or inline), so redis-cli can talk to it:
//   SPIN nanoseconds [SHORT|LONG] [TYPE]  -> +OK
//   PING, QUIT, COMMAND
// The class is long from `long_from` on unless it is given. A request is of type short or long, or
// of the one that it names: a number of kFirstNamed to kLastNamed, of which policies learn what it
// takes like of any other.
// Anything else gets -ERR. Slow requests are logged. Thread safe as Application and Protocol ask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/limits.h"
#include "runtime/app.h"

namespace rubato::spin {

// Request types, as the runtime's statistics number them.
inline constexpr uint32_t kControl = 0;
inline constexpr uint32_t kShort = 1;
inline constexpr uint32_t kLong = 2;
inline constexpr uint32_t kFirstNamed = 3;
inline constexpr uint32_t kLastNamed = limits::kTypes - 2;
inline constexpr uint32_t kTypes = kLastNamed + 1;

// "control", "short", "long" or a number. Requires type < kTypes. The text is there for ever.
const char* type_name(uint32_t type);

// How far apart the checkpoints of a request are.
inline constexpr Nanos kWorkUnit(100);

// Occupies the worker for `service` of its own time (time spent preempted does not count), with a
// checkpoint about every kWorkUnit. Ends early if the request is cancelled.
void busy_work(Nanos service);

struct SpinOptions {
  Nanos long_from = Nanos::micros(10);  // the thesis' fake application marks these long
  Nanos longest = Nanos::seconds(10);   // a longer service time is refused with an error
  void (*work)(Nanos) = busy_work;      // does what busy_work does
};

// One request: a service time, and its class as given (or else by its length).
struct Work {
  Nanos service;
  bool is_long = false;
};
std::optional<Work> parse_work(std::string_view nanoseconds, std::string_view class_or_empty,
                               const SpinOptions& options);

class SpinServer final : public Application, public Protocol {
 public:
  explicit SpinServer(SpinOptions options) : options_(options) {}

  std::unique_ptr<Session> open(const Peer& peer) override;
  void handle(Request& request) override;
  void slow(const Request& request, const Completion& times) override;

 private:
  SpinOptions options_;
};

}  // namespace rubato::spin
