// SPDX-License-Identifier: Apache-2.0
#include "cli/top/history.h"

#include <algorithm>
#include <utility>

namespace rubato::cli {
namespace {

// States come a little early or late.
constexpr double kSecondUs = 0.9e6, kMinuteUs = 59.5e6;

template <class T, class Same>
const T* find(const std::vector<T>& all, Same&& same) {
  const auto found = std::find_if(all.begin(), all.end(), same);
  return found == all.end() ? nullptr : &*found;
}

const TypeState* type_of_number(const LiveState& state, uint32_t number) {
  return find(state.types, [&](const TypeState& one) { return one.number == number; });
}

Quantiles quantiles_of(const Histogram& values) {
  return {values.count(), values.percentile(50).micros(), values.percentile(99).micros(),
          values.percentile(99.9).micros()};
}

double share(double sum, double count) { return count > 0 ? sum / count : 0; }

double difference(uint64_t now, uint64_t before) {
  return static_cast<double>(now) - static_cast<double>(before);
}

// Another process can have the number of the one before it, as in a container.
bool has_begun_anew(const LiveState& before, const LiveState& now) {
  if (now.pid != before.pid || now.time_us <= before.time_us) return true;
  return std::any_of(before.types.begin(), before.types.end(), [&](const TypeState& type) {
    const TypeState* const later = type_of_number(now, type.number);
    return later == nullptr || later->finished < type.finished;
  });
}

double counted(const std::map<std::string, uint64_t>& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : static_cast<double>(found->second);
}

// From `before` to `now`.
class Interval {
 public:
  Interval(const LiveState& before, const LiveState& now)
      : before_(before), now_(now), seconds_((now.time_us - before.time_us) / 1e6) {}

  double seconds() const { return seconds_; }
  double per_second(double amount) const { return share(amount, seconds_); }

  double counter(const std::string& name) const {
    return counted(now_.counters, name) - counted(before_.counters, name);
  }
  Histogram latency(const TypeState& type) const { return since(type, &TypeState::latency); }
  Histogram service(const TypeState& type) const { return since(type, &TypeState::service); }
  double finished(const TypeState& type) const {
    const TypeState* const before = earlier(type);
    return difference(type.finished, before == nullptr ? 0 : before->finished);
  }
  double waited_us(const TypeState& type) const {
    const TypeState* const before = earlier(type);
    return type.waited_us - (before == nullptr ? 0 : before->waited_us);
  }
  const LiveState& before() const { return before_; }

 private:
  const TypeState* earlier(const TypeState& type) const {
    return type_of_number(before_, type.number);
  }
  Histogram since(const TypeState& type, Histogram TypeState::* values) const {
    const TypeState* const before = earlier(type);
    return before == nullptr ? type.*values : (type.*values).since(before->*values);
  }

  const LiveState& before_;
  const LiveState& now_;
  double seconds_;
};

// The rows of the types, and that of all.
void add_types(TopView& view, const Interval& second, const Interval& minute) {
  Histogram all_second, all_minute;
  double waited = 0, finished = 0, served = 0;
  for (const TypeState& type : view.now->types) {
    const Histogram latency = second.latency(type), service = second.service(type);
    const Histogram of_minute = minute.latency(type);
    all_second.merge(latency);
    all_minute.merge(of_minute);
    waited += second.waited_us(type);
    finished += second.finished(type);
    served += service.sum_ns() / 1e3;
    view.types.push_back({type.name, second.per_second(static_cast<double>(latency.count())),
                          share(second.waited_us(type), second.finished(type)),
                          service.mean_ns() / 1e3, quantiles_of(latency),
                          quantiles_of(of_minute)});
  }
  const auto count = static_cast<double>(all_second.count());
  view.all = {"all", second.per_second(count), share(waited, finished), share(served, count),
              quantiles_of(all_second), quantiles_of(all_minute)};
}

void add_workers(TopView& view, const Interval& second) {
  for (size_t i = 0; i < view.now->workers.size(); ++i) {
    const WorkerState& worker = view.now->workers[i];
    const auto& before = second.before().workers;
    const double busy_us = i < before.size() ? worker.busy_us - before[i].busy_us : 0;
    view.workers.push_back({worker, std::clamp(second.per_second(busy_us / 1e6), 0.0, 1.0)});
  }
}

void add_blocked(TopView& view, const Interval& minute) {
  for (const BlockedState& pair : view.now->blocked) {
    const BlockedState* const before = find(minute.before().blocked, [&](const BlockedState& one) {
      return one.victim == pair.victim && one.blocker == pair.blocker;
    });
    const double requests = difference(pair.requests, before == nullptr ? 0 : before->requests);
    const double held_us = pair.held_us - (before == nullptr ? 0 : before->held_us);
    if (requests <= 0) continue;
    view.blocked.push_back(
        {pair.victim, pair.blocker, minute.per_second(requests), held_us / requests});
  }
  std::stable_sort(view.blocked.begin(), view.blocked.end(), [](const auto& a, const auto& b) {
    return a.rate_per_s * a.held_us > b.rate_per_s * b.held_us;
  });
}

void add_refusals(TopView& view, const Interval& second) {
  for (const RefusalState& one : view.now->refusals) {
    const RefusalState* const before =
        find(second.before().refusals, [&](const RefusalState& earlier) {
          return earlier.reason == one.reason && earlier.job_class == one.job_class;
        });
    const double since = difference(one.requests, before == nullptr ? 0 : before->requests);
    if (since <= 0) continue;
    view.refused.emplace_back(one.reason + " " + one.job_class, second.per_second(since));
  }
}

}  // namespace

Status ServerHistory::add(std::string text) {
  Result<LiveState> parsed = parse_live_state(text);
  if (!parsed) return Error{parsed.error()};
  auto state = std::make_shared<const LiveState>(std::move(*parsed));
  if (now_ != nullptr && has_begun_anew(*now_, *state)) kept_.clear();
  now_ = std::move(state);
  kept_.push_back({now_->time_us, std::move(text)});
  while (kept_.size() > 2 && now_->time_us - kept_[1].time_us >= kMinuteUs) kept_.pop_front();
  return Done{};
}

// The newest state that is that old, or else the oldest.
LiveState ServerHistory::at_least(double age_us) const {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Kept& kept) {
    return now_->time_us - kept.time_us >= age_us;
  });
  const Kept& kept = found == kept_.rend() ? kept_.front() : *found;
  return parse_live_state(kept.text).value();
}

TopView ServerHistory::view() const {
  TopView view;
  view.now = now_;
  const LiveState second_ago = at_least(kSecondUs), minute_ago = at_least(kMinuteUs);
  const Interval second(second_ago, *now_), minute(minute_ago, *now_);
  view.second_s = second.seconds();
  view.minute_s = minute.seconds();
  view.busy = second.per_second(second.counter("busy_ns") / 1e9);
  view.awake = second.per_second(second.counter("awake_ns") / 1e9);
  for (const auto& [name, value] : now_->counters) {
    view.rates[name] = second.per_second(second.counter(name));
  }
  add_types(view, second, minute);
  add_workers(view, second);
  add_blocked(view, minute);
  add_refusals(view, second);
  return view;
}

}  // namespace rubato::cli
