// SPDX-License-Identifier: Apache-2.0
//
// A flood: for `length` requests one kind of them comes faster than all workers can serve it, and
// at its begin a few of another kind, the victims. Who of these is not served before the flood ends
// has starved, as far as `length` can tell. Before it all kinds come at half the load, so that
// policies know them. For tests; the same seed gives the same flood.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/prng.h"
#include "policy/testing/drive.h"

namespace rubato::testing {

enum class FloodKind : uint8_t { kShort, kLong, kUnknown };

constexpr const char* name_of(FloodKind kind) {
  return kind == FloodKind::kShort ? "short" : kind == FloodKind::kLong ? "long" : "unknown";
}

struct Flood {
  std::vector<Arrival> arrivals;
  std::vector<uint32_t> victims;  // of these arrivals
  Instant end;                    // the last arrival
};

class FloodMaker {
 public:
  FloodMaker(uint64_t seed, uint32_t workers) : prng_(seed), workers_(workers) {}

  Flood make(FloodKind flooding, FloodKind victim, uint32_t length) {
    Flood flood;
    for (uint32_t i = 0; i < kBefore; ++i) {
      const uint32_t draw = prng_.below(50);
      const FloodKind kind = draw == 0   ? FloodKind::kUnknown
                             : draw < 10 ? FloodKind::kLong
                                         : FloodKind::kShort;
      add(flood, kind, 0.5);
    }
    const double load = 1.2 + prng_.uniform();
    for (uint32_t i = 0; i < length; ++i) {
      if (i % 8 == 0 && flood.victims.size() < kVictims) {
        flood.victims.push_back(static_cast<uint32_t>(flood.arrivals.size()));
        add(flood, victim, load);
      }
      add(flood, flooding, load);
    }
    flood.end = at_;
    return flood;
  }

 private:
  static constexpr uint32_t kBefore = 800;
  static constexpr uint32_t kVictims = 4;
  static constexpr Nanos kShortService = Nanos::micros(1);
  static constexpr Nanos kLongService = Nanos::micros(10);

  void add(Flood& flood, FloodKind kind, double load) {
    const bool is_long = kind == FloodKind::kLong;
    const Nanos service = is_long ? kLongService : kShortService;
    const double gap = static_cast<double>(service.count()) / (load * workers_);
    at_ = at_ + Nanos(static_cast<int64_t>(-gap * std::log(1.0 - prng_.uniform())));
    flood.arrivals.push_back({.at = at_,
                              .worker = WorkerId{prng_.below(workers_)},
                              .service = service,
                              .job_class = is_long ? JobClass::kLong : JobClass::kShort,
                              .type = kind == FloodKind::kUnknown ? 0 : is_long ? 2u : 1u,
                              .flow = prng_.below(64)});
  }

  Prng prng_;
  uint32_t workers_;
  Instant at_;
};

// Was a victim that was let in there until the flood was over?
inline bool starved(const Flood& flood, const DriveReport& report) {
  return std::any_of(flood.victims.begin(), flood.victims.end(), [&](uint32_t victim) {
    const bool in_time = std::any_of(
        report.departures.begin(), report.departures.end(),
        [&](const Departure& d) { return d.arrival == victim && d.at < flood.end; });
    const auto refused = std::find(report.refused.begin(), report.refused.end(), victim);
    return !in_time && refused == report.refused.end();
  });
}

}  // namespace rubato::testing
