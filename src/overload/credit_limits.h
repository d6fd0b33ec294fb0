// SPDX-License-Identifier: Apache-2.0
//
// CreditLimits: how many credits each worker may have issued, so that all together issue no more
// than there are. What is left is for those workers that requests came to lately, or for all, in
// even parts; what does not divide goes to others each time. If too many are issued, the same parts
// are to come back. One owner.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/check.h"

namespace rubato::overload {

class CreditLimits {
 public:
  // `issued` by worker; `active` ones, none = all.
  const std::vector<int64_t>& of(int64_t unissued, const std::vector<int64_t>& issued,
                                 const std::vector<uint32_t>& active) {
    const bool all = active.empty();
    const auto sharers = static_cast<int64_t>(all ? issued.size() : active.size());
    RUBATO_DCHECK(sharers > 0);
    const int64_t odd = unissued % sharers;
    limits_ = issued;
    ++turn_;
    for (int64_t i = 0; i < sharers; ++i) {
      const auto at = static_cast<size_t>((i + turn_) % sharers);
      const int64_t one = i < std::abs(odd) ? (odd > 0 ? 1 : -1) : 0;
      limits_[all ? at : active[at]] += unissued / sharers + one;
    }
    return limits_;
  }

 private:
  std::vector<int64_t> limits_;
  int64_t turn_ = 0;
};

}  // namespace rubato::overload
