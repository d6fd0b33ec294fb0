// SPDX-License-Identifier: Apache-2.0
//
// RefusalRule: which requests a worker refuses, for clients that know no credits. Around the rule
// of aqm.h (drop requests that waited longer than twice the target) it adds what a server on a busy
// machine needs:
//
//   patience   A wait is overload only if the worker has not run out of work for that long since
//              waits became too long. After a stall of the machine the server catches up and
//              nobody is refused (CoDel's interval, Nichols and Jacobson, CACM 2012, applied to
//              empty queues instead of least waits).
//   calm       Overload is over when nobody was late for that long. Not sooner: while the clients
//              of an overloaded server stand still for a moment it runs out of work, and would have
//              to be patient anew.
//   budget     At most a part of the worker's time goes into refusing. Where a refusal costs about
//              what serving does, as for a GET alone in its segment, refusing every late one would
//              serve none (receive livelock, Mogul and Ramakrishnan, TOCS 1997).
//   share      While others wait, what one connection has pipelined beyond its turn is refused at
//              the target already.
//
// One per worker, used by it only. Pure: the host brings the time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "overload/aqm.h"
#include "overload/class_delay.h"

namespace rubato::overload {

struct RefusalSettings {
  Nanos target_delay = Nanos::millis(3);  // over 0
  Nanos target_delay_long = Nanos();  // of long requests; zero = they have none of their own
  Nanos patience = Nanos::millis(100);
  Nanos calm = Nanos::millis(100);
  Nanos calm_idle = Nanos::millis(50);  // is enough where the worker runs out of work again
  double budget = 0.1;  // of the worker's time, for refusing
  // A long request that shares its worker may wait for so many times its own service, unless it has
  // a target of its own.
  int64_t long_waits = kServicesToWait;
  Nanos longest_retry = Nanos::seconds(1);

  bool operator==(const RefusalSettings&) const = default;

  bool tells_long() const { return target_delay_long > Nanos(); }
  Nanos target_of(bool is_long) const {
    return is_long && tells_long() ? target_delay_long : target_delay;
  }
  Nanos refuse_delay(bool is_long = false) const { return target_of(is_long) * 2; }  // III-C
};

class RefusalRule {
 public:
  explicit RefusalRule(const RefusalSettings& settings) : settings_(settings) {}

  const RefusalSettings& settings() const { return settings_; }
  // From the next request on.
  void change(const RefusalSettings& settings) { settings_ = settings; }

  // The worker has run out of work.
  void ran_out(Instant now) {
    late_since_ = Instant::never();
    calm_down(now, settings_.calm_idle);
  }

  // Whether a request that has waited so long goes on: at receive, and when its turn has come.
  bool serves(Nanos wait, Instant now, bool is_long = false) {
    if (Aqm{settings_.refuse_delay(is_long)}.serves(wait)) {
      calm_down(now, settings_.calm);
      return true;
    }
    if (late_since_ == Instant::never()) late_since_ = now;
    if (!overloaded_ && now - late_since_ < settings_.patience) return true;
    return !refuses(now);
  }

  // How late a long request of that service would be that has to wait for so long among others of
  // its kind; zero if that is in order.
  Nanos late_among_long(Nanos wait, Nanos service) const {
    const Nanos drop = settings_.refuse_delay(true);
    const Nanos allowed =
        settings_.tells_long() ? drop : allowed_wait(drop, service, settings_.long_waits);
    return wait > allowed ? wait : Nanos();
  }

  // As serves, for a request whose connection has just had its turn, while others wait.
  bool serves_more(Nanos wait, Instant now, bool is_long = false) {
    if (!overloaded_ || wait <= settings_.target_of(is_long)) return true;
    return !refuses(now);
  }

  // Charges the time that refusals took. What the operating system took from the worker meanwhile
  // is in it, so no debt is larger than what is saved at most; a budget of 0 is overdrawn for good.
  void spent(Nanos time) { budget_ = std::max(budget_ - time, Nanos(-1) - most_budget()); }

  bool overloaded() const { return overloaded_; }

  // When it is worth asking again: the longer the overload has lasted, the later.
  Nanos retry_after(Instant now, bool is_long = false) const {
    const Nanos lasted = overloaded_ ? now - since_ : Nanos();
    return std::min(std::max(lasted / kRetryPart, settings_.refuse_delay(is_long)),
                    settings_.longest_retry);
  }

 private:
  static constexpr int64_t kRetryPart = 8;
  // Time for refusals that was not used is kept for so long.
  static constexpr Nanos kBudgetOf = Nanos::millis(10);

  Nanos most_budget() const {
    return Nanos(static_cast<int64_t>(static_cast<double>(kBudgetOf.count()) * settings_.budget));
  }

  void calm_down(Instant now, Nanos calm) {
    if (!overloaded_ || now - last_late_ <= calm) return;
    overloaded_ = false;
    late_since_ = Instant::never();
  }

  bool refuses(Instant now) {
    if (!overloaded_) since_ = refilled_ = now;
    overloaded_ = true;
    last_late_ = now;
    const auto earned = static_cast<double>((now - refilled_).count()) * settings_.budget;
    refilled_ = now;
    budget_ = std::min(budget_ + Nanos(static_cast<int64_t>(earned)), most_budget());
    return budget_ >= Nanos();
  }

  RefusalSettings settings_;
  bool overloaded_ = false;
  Instant since_;                            // overloaded since
  Instant late_since_ = Instant::never();    // waits are too long since; never() = they are not
  Instant last_late_;
  Instant refilled_;
  Nanos budget_;
};

}  // namespace rubato::overload
