// SPDX-License-Identifier: Apache-2.0
#include "load/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace rubato::load {
namespace {

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double per_second(uint64_t count, Nanos span) {
  return span > Nanos(0) ? static_cast<double>(count) / span.seconds() : 0;
}

}  // namespace

Recorder::Recorder(const LoadOptions& options, const std::vector<SourceType>& types)
    : options_(options),
      types_(types),
      warmup_(options.warmup_length()),
      account_(types.size()),
      undisturbed_(types.size()) {}

void Recorder::sent(uint32_t type, Nanos lag) {
  ++account_[type].sent;
  send_lag_.record(lag);
}

void Recorder::replied(uint32_t type, Nanos at, Nanos latency, Nanos service, bool is_measured) {
  ++replies_;
  last_reply_ = at;
  in_window_ += at >= warmup_ && at < options_.duration ? 1u : 0u;
  TypeStats& stats = account_[type];
  if (options_.timeline) {
    close_slices_before(at);
    stats.slice.record(latency);
  }
  if (options_.progress) recent_.record(latency);
  if (!is_measured) return;
  stats.latency.record(latency);
  if (options_.closed_clients == 0) undisturbed_.replied(type, at - latency, at);
  if (service > Nanos(0)) record_slowdown(stats.slowdown, latency, service);
}

void Recorder::failed(uint32_t type, Outcome outcome, std::string_view text, bool is_measured) {
  ++failures_;
  if (outcome == Outcome::kError && first_error_.empty()) first_error_ = text;
  if (!is_measured) return;
  TypeStats& stats = account_[type];
  switch (outcome) {
    case Outcome::kRefused: ++stats.refused; break;
    case Outcome::kError: ++stats.errors; break;
    case Outcome::kExpired: ++stats.expired; break;
    case Outcome::kOverflowed: ++stats.overflowed; break;
    case Outcome::kWithheld: ++stats.withheld; break;
  }
}

void Recorder::lost(uint32_t type, bool timed_out, bool is_measured) {
  ++failures_;
  if (!is_measured) return;
  ++account_[type].lost;
  timeouts_ += timed_out ? 1u : 0u;
}

void Recorder::turn(Nanos gap) {
  if (gap <= Nanos::micros(50)) return;
  ++gaps_50us_;
  gaps_100us_ += gap > Nanos::micros(100) ? 1u : 0u;
  gaps_1ms_ += gap > Nanos::millis(1) ? 1u : 0u;
  max_gap_ = std::max(max_gap_, gap);
}

Histogram Recorder::take_recent() { return std::exchange(recent_, Histogram()); }

void Recorder::close_slices_before(Nanos at) {
  while (at >= slice_end_) {
    TimelineSlice slice{.start_s = (slice_end_ - kTimelineSlice).seconds(), .types = {}};
    for (TypeStats& stats : account_) {
      const Histogram& h = stats.slice;
      slice.types.push_back(
          {h.count(), h.percentile(50).micros(), h.percentile(99).micros(),
           h.percentile(99.9).micros(), h.max().micros()});
      if (!h.empty()) stats.slice.clear();
    }
    timeline_.push_back(std::move(slice));
    slice_end_ += kTimelineSlice;
  }
}

Recorder::Totals Recorder::totals() const {
  Totals all;
  all.requests = unsent_;
  for (const TypeStats& stats : account_) {
    all.requests += stats.sent;
    all.served += stats.latency.count();
    all.refused += stats.refused;
    all.errors += stats.errors;
    all.lost += stats.lost;
  }
  return all;
}

// The requests in flight at the end of a run that had more to send than the server could take. If
// replies still came at the end, the server has not lost these requests.
uint64_t Recorder::cut_off() const {
  return unsent_ > 0 && last_reply_ >= options_.duration ? timeouts_ : 0;
}

// A run that the user broke off before the first reply shows nothing about the server.
std::string Recorder::failure() const {
  const Totals all = totals();
  if (share_of(all.errors, all.requests) > kMaxLostShare) {
    return fmt::format("{:.2f} % of the requests got an error: {}",
                       100 * share_of(all.errors, all.requests), first_error_);
  }
  if (all.requests > 0 && all.served == 0 && !interrupted_) {
    const uint64_t unsent = all.requests - all.refused - all.errors - all.lost;
    return fmt::format("of {} requests none was served: {} refused, {} errors, {} without a reply, "
                       "{} never sent",
                       all.requests, all.refused, all.errors, all.lost, unsent);
  }
  const uint64_t lost = all.lost - cut_off();
  if (share_of(lost, all.requests) > kMaxLostShare) {
    return fmt::format("{:.2f} % of the requests got no reply", 100 * share_of(lost, all.requests));
  }
  return "";
}

std::string Recorder::doubt() const {
  const uint64_t requests = totals().requests;
  if (interrupted_) {
    return requests > 0 ? "interrupted before its end" : "interrupted within the warm-up";
  }
  if (requests == 0) return "no request was due after the warm-up";
  if (options_.closed_clients == 0 && send_lag_.percentile(99) > kMaxSendLagP99) {
    return fmt::format("the generator fell behind its schedule: p99 of its send lag is {:.1f} ms",
                       send_lag_.percentile(99).seconds() * 1e3);
  }
  if (share_of(unsent_, requests) > kMaxUnsentShare) {
    return fmt::format(
        "{:.2f} % of the requests were never sent: no connection was free for them "
        "(the server is slower than the offered rate, or --flows is too small)",
        100 * share_of(unsent_, requests));
  }
  return "";
}

void Recorder::add_types(RunReport& report, Histogram& all, Histogram& slowdowns) const {
  for (size_t i = 0; i < types_.size(); ++i) {
    const TypeStats& stats = account_[i];
    TypeReport type{.name = types_[i].name,
                    .service_us = {},
                    .share = types_[i].share,
                    .count = stats.latency.count(),
                    .refused = stats.refused,
                    .errors = stats.errors,
                    .lost = stats.lost,
                    .latency = summarize_latency(stats.latency),
                    .slowdown = {},
                    .histograms = {stats.latency, stats.slowdown},
                    .ccdf = {}};
    if (types_[i].service_mean) type.service_us = types_[i].service_mean->micros();
    if (!stats.slowdown.empty()) type.slowdown = summarize_slowdown(stats.slowdown);
    if (options_.ccdf) type.ccdf = ccdf_of(stats.latency);
    report.types.push_back(std::move(type));
    report.requests += stats.sent;
    report.refused += stats.refused;
    report.errors += stats.errors;
    report.lost += stats.lost;
    if (report.unsent) {
      report.unsent->expired += stats.expired;
      report.unsent->overflowed += stats.overflowed;
      report.unsent->withheld += stats.withheld;
    }
    all.merge(stats.latency);
    slowdowns.merge(stats.slowdown);
  }
}

UndisturbedReport Recorder::undisturbed_report() const {
  UndisturbedReport report;
  report.stalls = undisturbed_.stalls().count();
  report.stalled_ms = undisturbed_.stalls().lost().micros() / 1e3;
  report.floor_us = kStallFloor.micros();
  report.reach_us = kStallReach.micros();
  report.aftermath = kStallAftermath;
  Histogram all;
  uint64_t replies = 0;
  for (size_t i = 0; i < types_.size(); ++i) {
    const Histogram& latency = undisturbed_.latency_of(static_cast<uint32_t>(i));
    const uint64_t of_type = account_[i].latency.count();
    report.types.push_back({.name = types_[i].name,
                            .count = latency.count(),
                            .share = share_of(latency.count(), of_type),
                            .latency = summarize_latency(latency),
                            .histogram = latency});
    all.merge(latency);
    replies += of_type;
  }
  report.share = share_of(all.count(), replies);
  report.latency = summarize_latency(all);
  return report;
}

void Recorder::add_live_figures(RunReport& report, Nanos ran) const {
  report.timeouts = timeouts_;
  if (options_.closed_clients == 0) {
    report.send_lag = SendLag{.p99_us = send_lag_.percentile(99).micros(),
                              .max_us = send_lag_.max().micros(),
                              .unsent = unsent_};
    report.undisturbed = undisturbed_report();
  }
  report.noise = NoiseReport{.over_50us_per_s = per_second(gaps_50us_, ran),
                             .over_100us_per_s = per_second(gaps_100us_, ran),
                             .over_1ms_per_s = per_second(gaps_1ms_, ran),
                             .max_gap_us = max_gap_.micros(),
                             .steal_percent = {},
                             .stalls = undisturbed_.stalls().count(),
                             .stalled_ms = undisturbed_.stalls().lost().micros() / 1e3};
  report.timeline_slice_s = kTimelineSlice.seconds();
  report.timeline = timeline_;
  if (!first_error_.empty()) report.settings.emplace_back("first_error", first_error_);
  report.settings.emplace_back("waited_for_a_connection", std::to_string(waited_for_flow_));
  report.settings.emplace_back("connections_closed_by_server", std::to_string(closed_by_peer_));
}

RunReport Recorder::report(Nanos ran) const {
  RunReport report;
  if (speaks_rpc(options_.target)) report.unsent.emplace();
  Histogram all, slowdowns;
  add_types(report, all, slowdowns);
  report.requests += unsent_;
  const Nanos window = ran - warmup_;
  report.offered_rps = per_second(report.requests, window);
  report.achieved_rps = per_second(in_window_, window);
  report.latency = summarize_latency(all);
  if (!slowdowns.empty()) report.slowdown = summarize_slowdown(slowdowns);
  report.wall_s = ran.seconds();
  report.seed = options_.seed;
  report.loop = options_.closed_clients > 0 ? "closed" : "open";
  report.invalid_reason = failure();
  if (report.invalid_reason.empty()) report.invalid_reason = doubt();
  report.valid = report.invalid_reason.empty();
  add_live_figures(report, ran);
  return report;
}

}  // namespace rubato::load
