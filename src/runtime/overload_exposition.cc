// SPDX-License-Identifier: Apache-2.0
#include "runtime/overload_exposition.h"

#include <cstdio>

namespace rubato {
namespace {

constexpr JobClass kClasses[] = {JobClass::kShort, JobClass::kLong};
constexpr Refusal kReasons[] = {Refusal::kFull, Refusal::kDelay, Refusal::kShare,
                                Refusal::kAbandoned, Refusal::kExpired, Refusal::kLimit};

std::string control_of(const RuntimeOptions& options) {
  const std::string own = rubato::name_of(options.overload);
  if (options.credits == nullptr) return own;
  return options.goes_by_waits() ? own + "+credits" : "credits";
}

const char* name_of(JobClass job_class) { return job_class == JobClass::kLong ? "long" : "short"; }

uint64_t refused(const RuntimeStats& stats, Refusal why, JobClass job_class) {
  return stats.refusals[static_cast<size_t>(why)][static_cast<size_t>(job_class)];
}

std::string micros(Nanos time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", time.micros());
  return text;
}

bool controlled(const RuntimeOptions& options) {
  return options.goes_by_waits() || options.credits != nullptr;
}

void write_targets(OpenMetrics& out, const overload::RefusalSettings& settings) {
  out.family("rubato_target_delay_seconds", "gauge",
             "How long requests may wait; from twice that on they are refused.");
  out.gauge(settings.target_of(false).seconds(), OpenMetrics::label("class", "short"));
  if (!settings.tells_long()) return;
  out.gauge(settings.target_of(true).seconds(), OpenMetrics::label("class", "long"));
}

bool overloaded(const RuntimeStats& stats, const RuntimeOptions& options) {
  if (stats.overloaded > 0) return true;
  return options.credits != nullptr &&
         options.credits->report().delay > options.refusal_rule.target_delay;
}

void write_limits(OpenMetrics& out, const overload::LimiterReport& limiter) {
  if (limiter.limits.underway != overload::kUnlimited) {
    out.family("rubato_limit_requests", "gauge", "Requests that the limiter lets in at once.");
    out.gauge(static_cast<double>(limiter.limits.underway));
  }
  out.family("rubato_admitted_levels", "gauge",
             "Share of the levels of priority that the limiter lets in.");
  out.gauge(static_cast<double>(limiter.limits.levels) / overload::kLevels);
}

void write_weight(std::vector<std::pair<std::string, std::string>>& lines, int percent) {
  if (percent == Runtime::kNoWeight) return;
  lines.emplace_back("advertised_state", percent == 0 ? "drain" : "up");
  lines.emplace_back("advertised_weight_percent", std::to_string(percent));
}

}  // namespace

void expose_overload(OpenMetrics& out, const Runtime& runtime) {
  const RuntimeStats stats = runtime.stats();
  if (controlled(runtime.options())) write_targets(out, runtime.settings().refusal_rule());
  out.family("rubato_queue_delay_seconds", "gauge",
             "Wait of a request that had its turn a moment ago, at the worker with the longest.");
  for (const JobClass job_class : kClasses) {
    out.gauge(runtime.queue_delay(job_class).seconds(),
              OpenMetrics::label("class", name_of(job_class)));
  }
  out.family("rubato_overloaded_workers", "gauge",
             "Workers that refuse requests that waited too long.");
  out.gauge(stats.overloaded);
  out.family("rubato_refusals", "counter",
             "Requests refused: full queues, too long a wait, more than a connection's share or a "
             "session's credit, a client that is gone, a deadline that has passed, beyond what a "
             "limiter lets in.");
  for (const Refusal why : kReasons) {
    for (const JobClass job_class : kClasses) {
      out.counter(refused(stats, why, job_class),
                  OpenMetrics::label("reason", name_of(why)) + "," +
                      OpenMetrics::label("class", name_of(job_class)));
    }
  }
  if (stats.limiter) write_limits(out, *stats.limiter);
  if (runtime.advertised() == Runtime::kNoWeight) return;
  out.family("rubato_advertised_weight", "gauge",
             "Part of its usual share that the agent port asks load balancers for, 0 = drain.");
  out.gauge(runtime.advertised() / 100.0);
}

std::vector<std::pair<std::string, std::string>> overload_lines(const Runtime& runtime) {
  const RuntimeStats stats = runtime.stats();
  const RuntimeOptions& options = runtime.options();
  const overload::RefusalSettings rule = runtime.settings().refusal_rule();
  std::vector<std::pair<std::string, std::string>> lines{
      {"overload_control", control_of(options)},
      {"overload_state", overloaded(stats, options) ? "overloaded" : "calm"},
      {"overloaded_workers", std::to_string(stats.overloaded)}};
  if (controlled(options)) {
    lines.emplace_back("target_delay_us", micros(rule.target_delay));
    lines.emplace_back("refuse_delay_us", micros(rule.refuse_delay()));
  }
  if (rule.tells_long()) {
    lines.emplace_back("target_delay_us_long", micros(rule.target_of(true)));
    lines.emplace_back("refuse_delay_us_long", micros(rule.refuse_delay(true)));
  }
  for (const JobClass job_class : kClasses) {
    lines.emplace_back(std::string("queue_delay_us_") + name_of(job_class),
                       micros(runtime.queue_delay(job_class)));
  }
  for (const Refusal why : kReasons) {
    for (const JobClass job_class : kClasses) {
      lines.emplace_back(std::string("refused_") + name_of(why) + "_" + name_of(job_class),
                         std::to_string(refused(stats, why, job_class)));
    }
  }
  if (stats.limiter) {
    const overload::Limits& limits = stats.limiter->limits;
    const bool counts = limits.underway != overload::kUnlimited;
    lines.emplace_back("limit_requests", counts ? std::to_string(limits.underway) : "none");
    lines.emplace_back("admitted_levels", std::to_string(limits.levels));
  }
  write_weight(lines, runtime.advertised());
  return lines;
}

}  // namespace rubato
