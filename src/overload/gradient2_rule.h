// SPDX-License-Identifier: Apache-2.0
//
// Gradient2Rule: a limit of the requests in the server, from how their latency compares with what
// it has been for long: Gradient2Limit of Netflix' concurrency-limits 0.4 in its WindowedLimit. It
// knows no priorities, and never measures under a limit of its own as GradientRule does: where the
// latency stays high, that is what is normal after some time. Per window
//
//   gradient = tolerance * long / short, within 0.5 .. 1
//   wanted   = gradient * limit + queue
//   limit    = (1 - smoothing) * limit + smoothing * wanted, within least .. most
//
// where short is the mean latency of the window and long an average of all, by 2 / (windows + 1)
// exponentially after a plain mean of the first ten; long falls by a twentieth in a window in which
// it is more than twice as much as short. A window in which less than half of the limit was used
// leaves that as it is: on average, by Little's law, where the published code takes the greatest
// number that a request has found. Pure; one owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/option_text.h"
#include "base/time.h"
#include "overload/load_window.h"

namespace rubato::overload {

// Defaults are Netflix'.
struct Gradient2Settings {
  Nanos update_every = Nanos::seconds(1);
  double tolerance = 1.5;
  double smoothing = 0.2;
  uint32_t queue = 4;
  uint32_t windows = 600;
  uint32_t least = 20;
  uint32_t most = 200;
};

class Gradient2Rule {
 public:
  static constexpr const char* kName = "gradient2";
  static constexpr const char* kSummary = "a limit of requests inside, by their usual latency";
  static constexpr const char* kSource = "Netflix, concurrency-limits";
  using Config = Gradient2Settings;
  using Settings = Gradient2Settings;
  static constexpr bool kGoesByLatency = true;

  template <class V>
  static void visit(Settings& s, V&& v) {
    v(OptionInfo{"update_every", "ms", 0.001, 6e4, "time between two decisions"}, s.update_every);
    v(OptionInfo{"tolerance", "", 1, 100, "times its usual value that latency may have"},
      s.tolerance);
    v(OptionInfo{"smoothing", "", 0.001, 1, "share of a decision that the limit takes on"},
      s.smoothing);
    v(OptionInfo{"queue", "", 0, 1e6, "requests more than what was used, at each decision"},
      s.queue);
    v(OptionInfo{"windows", "", 1, 1e6, "over which the usual latency is averaged"}, s.windows);
    v(OptionInfo{"least", "", 1, 1e6, "least limit, also the first"}, s.least);
    v(OptionInfo{"most", "", 1, 1e6, "greatest limit"}, s.most);
  }

  Gradient2Rule(const Settings& settings, uint64_t /*seed*/)
      : settings_(settings), limit_(settings.least) {}

  WindowEnd window() const { return {settings_.update_every, kUnlimited, false}; }

  // Never: a request that was admitted is served, however long it waited.
  Nanos longest_wait() const { return Nanos::max(); }

  Limits limits() const { return {static_cast<int64_t>(limit_), kLevels}; }

  void decide(const LoadWindow& window, Instant /*now*/) {
    if (window.finished() == 0 || window.length <= Nanos()) return;
    const double short_ns = window.mean_ns();
    remember(short_ns);
    const double usual = long_ns_;
    if (long_ns_ > kMuchLonger * short_ns) long_ns_ *= kForgets;
    const double inside = static_cast<double>(window.finished()) * short_ns /
                          static_cast<double>(window.length.count());
    if (inside < limit_ / 2) return;
    const double gradient = std::clamp(settings_.tolerance * usual / short_ns, 0.5, 1.0);
    const double wanted = gradient * limit_ + settings_.queue;
    const double next = (1 - settings_.smoothing) * limit_ + settings_.smoothing * wanted;
    limit_ = std::clamp<double>(next, settings_.least, std::max(settings_.most, settings_.least));
  }

  Nanos usual_latency() const { return Nanos(static_cast<int64_t>(long_ns_)); }

 private:
  static constexpr uint32_t kFirst = 10;
  static constexpr double kMuchLonger = 2, kForgets = 0.95;

  void remember(double ns) {
    seen_ = std::min(seen_ + 1, kFirst + 1);
    const double share = seen_ <= kFirst ? 1.0 / seen_ : 2.0 / (settings_.windows + 1.0);
    long_ns_ += (ns - long_ns_) * share;
  }

  Settings settings_;
  double limit_;
  double long_ns_ = 0;
  uint32_t seen_ = 0;  // windows, up to one more than kFirst
};

}  // namespace rubato::overload
