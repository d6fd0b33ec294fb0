// SPDX-License-Identifier: Apache-2.0
//
// DARC-static (Persephone, section 5.3): DARC with a number of reserved workers that is given
// instead of computed. The shortest group of types owns them and may run anywhere; all others share
// the rest. With none reserved it is fixed priority, with all of them reserved the others are left
// with the spillway. Pure; policy/contract.h says when the host calls what.
#pragma once

#include "base/check.h"
#include "policy/darc.h"

namespace rubato {

class DarcStatic : public Darc {
 public:
  static constexpr const char* kName = "darc-static";
  static constexpr const char* kSummary =
      "darc with a given number of workers for the shortest types; 0 = fixed priority";
  static constexpr const char* kSource = "Persephone, SOSP 2021, section 5.3 (DARC-static)";
  static constexpr bool kElastic = false;  // the worker that parks could be a reserved one

  struct Config {
    uint32_t reserved = 1;  // the best for High Bimodal (Figure 4)
    uint32_t spillway = 1;
    uint32_t window = 50'000;
    Nanos check = Nanos::millis(1);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"reserved", "", 0, limits::kMaxWorkers, "workers for the shortest types only"},
      c.reserved);
    v(OptionInfo{"spillway", "", 1, limits::kMaxWorkers, "workers that also serve unknown types"},
      c.spillway);
    v(OptionInfo{"window", "", 1, 1e9, "requests between updates of the types' service times"},
      c.window);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the window is looked at"}, c.check);
  }

  // No demand to follow: every window may change which types are the shortest.
  explicit constexpr DarcStatic(Config config)
      : Darc({.spillway = config.spillway,
              .window = config.window,
              .slowdown = 0,
              .drift = 0,
              .check = config.check}),
        reserved_(config.reserved) {}

  using Central = Profile;

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    return has_new_profile(profile, host) ? reserve(profile, host.workers()) : host.plan();
  }

  Plan reserve(const Profile& profile, uint32_t workers) const {
    Plan plan;
    plan.ranking = profile.ranking();
    if (plan.ranking.types == 0) return plan;
    const uint32_t shortest = end_of_group(profile, plan.ranking, 0);
    const uint32_t rest = std::min(reserved_, spillway_first(workers));
    RUBATO_DCHECK(rest < workers);  // the spillway is never reserved
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      const bool owns = i < shortest;
      plan.first[i] = static_cast<uint16_t>(owns ? 0 : rest);
      plan.reserved[i] =
          static_cast<uint16_t>(owns ? std::min(reserved_, workers) : workers - rest);
      plan.group[i] = owns ? 1 : 2;
    }
    return plan;
  }

 private:
  uint32_t reserved_;
};

}  // namespace rubato
