// SPDX-License-Identifier: Apache-2.0
//
// Budget: what a client may send beyond its requests, retries or hedges, as a share of them. Each
// request earns a part of one; each extra spends one. A reserve lets single failures be retried
// while there is little traffic, and bounds what a quiet time can save up (Finagle's RetryBudget,
// Envoy's retry budgets; Bronson et al., "Metastable Failures in Distributed Systems", HotOS 2021).
// A plain value.
#pragma once

#include <algorithm>

namespace rubato::fleet {

class Budget {
 public:
  static constexpr double kReserve = 10;

  // `share` per request.
  explicit Budget(double share) : share_(share) {}

  void earn() { balance_ = std::min(balance_ + share_, std::max(kReserve, share_)); }
  // False = there is none left.
  bool spend() {
    if (balance_ < 1) return false;
    balance_ -= 1;
    return true;
  }

 private:
  double share_;
  double balance_ = kReserve;
};

}  // namespace rubato::fleet
