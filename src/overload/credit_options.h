// SPDX-License-Identifier: Apache-2.0
//
// CreditOptions: CreditSettings as `--credits-set NAME=VALUE` has them, but for the target delay,
// which is an option of its own. For set-up time.
#pragma once

#include <cstdint>

#include "base/option_text.h"
#include "base/result.h"
#include "overload/credit_settings.h"

namespace rubato::overload {

class CreditOptions {
 public:
  static constexpr const char* kName = "credits";

  struct Config {
    double refuse = 2;  // CoreSync IV-A
    double alpha = CreditSettings().alpha;
    double beta = CreditSettings().beta;
    double floor = CreditSettings().floor;
    Nanos update_every = CreditSettings().update_every;
    uint32_t session_limit = static_cast<uint32_t>(CreditSettings().session_limit);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"refuse", "", 1, 1000, "requests are refused at this many times the target delay"},
      c.refuse);
    v(OptionInfo{"alpha", "", 1e-6, 10, "credits per session that an update below it adds"},
      c.alpha);
    v(OptionInfo{"beta", "", 1e-6, 10, "how steeply credits shrink above it"}, c.beta);
    v(OptionInfo{"floor", "", 0, 1, "the least share that an update leaves of them"}, c.floor);
    v(OptionInfo{"update_every", "us", 0.1, 1e6, "time between two updates, at least"},
      c.update_every);
    v(OptionInfo{"session_limit", "", 1, 1e6, "credits of one session at most"}, c.session_limit);
  }

  // Fails with one line for a setting that does not exist.
  static Result<CreditSettings> read(const OptionSettings& given, Nanos target_delay) {
    Config config;
    for (const auto& [name, value] : given) {
      const Status set = set_option<CreditOptions>(config, name, value);
      if (!set.ok()) return Error{"credits_set: " + set.error()};
    }
    const double refuse_ns = static_cast<double>(target_delay.count()) * config.refuse;
    CreditSettings settings;
    settings.target_delay = target_delay;
    settings.refuse_delay = Nanos(static_cast<int64_t>(refuse_ns));
    settings.alpha = config.alpha;
    settings.beta = config.beta;
    settings.floor = config.floor;
    settings.update_every = config.update_every;
    settings.session_limit = config.session_limit;
    return settings;
  }
};

}  // namespace rubato::overload
