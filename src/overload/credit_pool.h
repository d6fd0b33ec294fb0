// SPDX-License-Identifier: Apache-2.0
//
// CreditPool: how many requests the clients together may have underway (CoreSync III-C:
// Credits_total, Credits_issued, num_sess, num_drained_sess), grown and shrunk by the delay of the
// oldest request, and lowered while cores park.
//
// A Cell is a counter with load(), store(n) and fetch_add(n): std::atomic<int64_t> in a live
// server, PlainCell in a simulated one. With the former everything that is const, withhold() and
// give_back() may be called by any thread at any time; the rest by one at a time. In a live server
// workers count for themselves and set_counts() brings the sums, so what is issued, pending and
// drained is as of then.
//
// What parking cores withhold is kept apart from what the control loop decides. In the published
// code both write one number: the loop can overwrite a subtraction, or a core that gives up parking
// forget to return it. Here neither can happen; the simulator has overwrite() to do as that code
// does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "overload/credit_settings.h"

namespace rubato::overload {

struct PlainCell {
  int64_t load() const { return value; }
  void store(int64_t n) { value = n; }
  int64_t fetch_add(int64_t n) {
    value += n;
    return value - n;
  }

  int64_t value = 0;
};

template <class Cell>
class CreditPool {
 public:
  // Starts with one credit per core, and never goes below. Requires max_cores > 0.
  CreditPool(const CreditSettings& settings, uint32_t max_cores)
      : settings_(settings), least_(max_cores) {
    RUBATO_DCHECK(max_cores > 0);
    decided_.store(least_);
  }

  int64_t total() const { return std::max(decided_.load() - withheld_.load(), least_); }
  int64_t issued() const { return issued_.load(); }    // told to clients, in use or not
  int64_t pending() const { return pending_.load(); }  // of those, in use: requests at the server
  int64_t unissued() const { return total() - issued(); }
  int64_t sessions() const { return sessions_.load(); }
  // What each session may have beyond what it asks for: at least one.
  int64_t spare() const {
    return std::max<int64_t>(unissued() / std::max<int64_t>(sessions(), 1), 1);
  }
  int64_t drained() const { return drained_.load(); }  // sessions with no credit
  int64_t withheld() const { return withheld_.load(); }

  // Algorithm 1, lines 27 and 34.
  void withhold(int64_t credits) {
    RUBATO_DCHECK(credits >= 0);
    withheld_.fetch_add(credits);
  }
  void give_back(int64_t credits) {
    [[maybe_unused]] const int64_t before = withheld_.fetch_add(-credits);
    RUBATO_DCHECK(credits >= 0 && credits <= before);
  }

  // The control loop read the total before this change of it, which was a withholding (over 0) or a
  // return (below), and wrote it afterwards: the total is as if it had not been.
  void overwrite(int64_t withheld) { decided_.fetch_add(withheld); }
  // When it was updated last.
  Instant updated_at() const { return updated_at_; }

  // III-C. `delay` of the oldest waiting request. False: the last update was too recent.
  bool update(Instant now, Nanos delay) {
    if (updated_ && now - updated_at_ < settings_.update_every) return false;
    const double rounds = pending() == 0 && drained() > 0 ? rounds_until(now) : 1;
    updated_ = true;
    updated_at_ = now;
    const int64_t before = total();
    const int64_t wanted = delay > settings_.target_delay ? decreased(before, delay)
                                                          : increased(before, rounds);
    decided_.fetch_add(std::clamp(wanted, least_, std::max(least_, most())) - before);
    return true;
  }

  void set_counts(int64_t issued, int64_t pending, int64_t drained) {
    issued_.store(issued);
    pending_.store(pending);
    drained_.store(drained);
  }
  // The same one by one.
  void note_issued(int64_t change) { issued_.fetch_add(change); }
  void note_pending(int64_t change) { pending_.fetch_add(change); }
  void note_drained(int64_t change) { drained_.fetch_add(change); }
  void note_opened() { sessions_.fetch_add(1); }
  // Without sessions it starts anew: nothing is known of the next ones.
  void note_closed() {
    const int64_t before = sessions_.fetch_add(-1);
    RUBATO_DCHECK(before > 0);
    if (before > 1) return;
    decided_.store(least_);
    carry_ = 0;
  }

 private:
  int64_t most() const { return sessions() * (settings_.session_limit + 1); }

  int64_t decreased(int64_t total, Nanos delay) {
    carry_ = 0;
    const double excess = static_cast<double>((delay - settings_.target_delay).count()) /
                          static_cast<double>(settings_.target_delay.count());
    const double factor = std::max(1 - settings_.beta * excess, settings_.floor);
    return std::min(static_cast<int64_t>(static_cast<double>(total) * factor), total - 1);
  }

  // While sessions have no credit and no request is here, the updates that a quiet host had no
  // reason to ask for are made up for: else a second session at an idle server waits for its first
  // credit until the host has looked 1/alpha times.
  double rounds_until(Instant now) const {
    if (!updated_) return 1;
    return std::floor(static_cast<double>((now - updated_at_).count()) /
                      static_cast<double>(settings_.update_every.count()));
  }

  // Alpha is per session, so that a round of updates means the same to few clients and to many. At
  // once a session adds a credit at most.
  int64_t increased(int64_t total, double rounds) {
    const double each = std::max(std::min(settings_.alpha * rounds, 1.0), settings_.alpha);
    carry_ += each * static_cast<double>(sessions());
    const auto whole = static_cast<int64_t>(carry_);
    carry_ -= static_cast<double>(whole);
    return total + whole;
  }

  CreditSettings settings_;
  int64_t least_;
  double carry_ = 0;  // of an increase, below one credit
  bool updated_ = false;
  Instant updated_at_;
  Cell decided_{};
  Cell withheld_{};
  Cell issued_{};
  Cell pending_{};
  Cell sessions_{};
  Cell drained_{};
};

}  // namespace rubato::overload
