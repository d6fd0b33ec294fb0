// SPDX-License-Identifier: Apache-2.0
//
// CreditOptions: CreditSettings as `--set credits.NAME=VALUE` has them (base/option_info.h). For
// set-up time.
#pragma once

#include <cstdint>

#include "base/option_info.h"
#include "overload/credit_settings.h"

namespace rubato::overload {

class CreditOptions {
 public:
  static constexpr const char* kName = "credits";

  struct Config {
    Nanos target_delay = CreditSettings().target_delay;
    double drop = 2;
    double alpha = CreditSettings().alpha;
    double beta = CreditSettings().beta;
    double floor = CreditSettings().floor;
    Nanos update_every = CreditSettings().update_every;
    uint32_t session_limit = static_cast<uint32_t>(CreditSettings().session_limit);

    CreditSettings settings() const {
      CreditSettings settings;
      settings.target_delay = target_delay;
      settings.drop_delay =
          Nanos(static_cast<int64_t>(static_cast<double>(target_delay.count()) * drop));
      settings.alpha = alpha;
      settings.beta = beta;
      settings.floor = floor;
      settings.update_every = update_every;
      settings.session_limit = session_limit;
      return settings;
    }
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"target_delay", "us", 0.1, 1e7, "waiting time that admission aims at"},
      c.target_delay);
    v(OptionInfo{"drop", "", 1, 1000, "requests are dropped at this many times that"}, c.drop);
    v(OptionInfo{"alpha", "", 1e-6, 10, "credits per session that an update below it adds"},
      c.alpha);
    v(OptionInfo{"beta", "", 1e-6, 10, "how steeply credits shrink above it"}, c.beta);
    v(OptionInfo{"floor", "", 0, 1, "the least share that an update leaves of them"}, c.floor);
    v(OptionInfo{"update_every", "us", 0.1, 1e6, "time between two updates, at least"},
      c.update_every);
    v(OptionInfo{"session_limit", "", 1, 1e6, "credits of one session at most"}, c.session_limit);
  }
};

}  // namespace rubato::overload
