// SPDX-License-Identifier: Apache-2.0
//
// The settings of the limiter that a scheduler is told to have, `--overload gradient` and the like
// with `--overload-set NAME=VALUE`. For set-up time.
#pragma once

#include <optional>
#include <utility>

#include "base/option_text.h"
#include "base/result.h"
#include "overload/limiter.h"
#include "sched/options.h"

namespace rubato {

template <class Rule>
Result<overload::LimiterSettings> read_limiter(typename Rule::Settings settings,
                                               const OptionSettings& given) {
  for (const auto& [name, value] : given) {
    const Status set = set_option<Rule>(settings, name, value);
    if (!set.ok()) return Error{"overload_set: " + set.error()};
  }
  return overload::LimiterSettings(settings);
}

// Nothing = it has none. Fails with one line for a setting that does not exist, or that nobody
// would read.
inline Result<std::optional<overload::LimiterSettings>> limiter_settings(
    const SchedulerOptions& options) {
  using Settings = std::optional<overload::LimiterSettings>;
  const auto wrapped = [](Result<overload::LimiterSettings> read) -> Result<Settings> {
    if (!read.ok()) return Error{read.error()};
    return Settings(std::move(read.value()));
  };
  switch (options.overload) {
    case Overload::kGradient:
      return wrapped(read_limiter<overload::GradientRule>({}, options.overload_settings));
    case Overload::kGradient2:
      return wrapped(read_limiter<overload::Gradient2Rule>({}, options.overload_settings));
    case Overload::kCinnamon: {
      overload::CinnamonSettings settings;
      settings.longest_wait = options.refusal_rule.refuse_delay();
      settings.workers = options.workers;
      return wrapped(read_limiter<overload::CinnamonRule>(settings, options.overload_settings));
    }
    case Overload::kDagor: {
      overload::DagorSettings settings;
      settings.target_delay = options.refusal_rule.target_delay;
      return wrapped(read_limiter<overload::DagorRule>(settings, options.overload_settings));
    }
    case Overload::kNone:
    case Overload::kAqm:
    case Overload::kCredits: break;
  }
  if (options.overload_settings.empty()) return Settings();
  return Error{"overload_set: needs --overload gradient, gradient2, cinnamon or dagor"};
}

}  // namespace rubato
