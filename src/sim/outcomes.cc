// SPDX-License-Identifier: Apache-2.0
#include "sim/outcomes.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/option_text.h"
#include "policy/catalog.h"

namespace rubato::sim {
namespace {

constexpr const char* kOption = "migrate";

Watch half(const Watch& watch, double from) {
  Watch part = watch;
  if (watch.progress) {
    part.progress = [&watch, from](double done) { return watch.progress(from + done / 2); };
  }
  return part;
}

// Which requests were late, by their number.
class Lateness {
 public:
  Lateness(Nanos limit, uint64_t requests) : limit_(limit), late_(requests, true) {}

  void note(const Watch::Done& done) {
    late_[done.id] = is_late(done);
    if (!is_late(done)) ++in_time_;
  }
  bool is_late(const Watch::Done& done) const { return done.latency > limit_; }
  bool was_late(const Watch::Done& done) const { return late_[done.id]; }
  uint64_t in_time() const { return in_time_; }

 private:
  Nanos limit_;
  std::vector<bool> late_;
  uint64_t in_time_ = 0;
};

void judge(bool late_without, bool late_with, MoveOutcomes& moves) {
  if (late_without) {
    ++(late_with ? moves.without_benefit : moves.effective);
  } else {
    ++(late_with ? moves.harmful : moves.without_harm);
  }
}

}  // namespace

MoveOutcomes& MoveOutcomes::operator+=(const MoveOutcomes& other) {
  effective += other.effective;
  without_harm += other.without_harm;
  without_benefit += other.without_benefit;
  harmful += other.harmful;
  late_without += other.late_without;
  late_with += other.late_with;
  return *this;
}

bool moves_requests(std::string_view policy) {
  const PolicyInfo* info = find_policy(policy);
  if (info == nullptr || !info->manages) return false;
  return std::any_of(
      info->options.begin(), info->options.end(),
      [](const OptionDescription& option) { return option.name == std::string_view(kOption); });
}

Result<JudgedRun> simulate_and_judge(std::string_view policy, const Settings& settings,
                                     const Setup& setup, Nanos limit, const Watch& watch) {
  RUBATO_CHECK(moves_requests(policy) && !watch.done);
  Lateness without(limit, setup.requests);
  Settings staying = settings;
  staying.emplace_back(kOption, "off");
  Watch first = half(watch, 0);
  first.trace = nullptr;
  first.done = [&](const Watch::Done& done) { without.note(done); };
  Result<Outcome> stayed = simulate(policy, staying, setup, first);
  if (!stayed) return Error{stayed.error()};
  if (stayed->stopped) return JudgedRun{std::move(*stayed), {.limit = limit}};

  JudgedRun run{{}, {.limit = limit}};
  uint64_t in_time = 0;
  Watch second = half(watch, 0.5);
  second.done = [&](const Watch::Done& done) {
    if (!without.is_late(done)) ++in_time;
    if (done.moved) judge(without.was_late(done), without.is_late(done), run.moves);
  };
  Result<Outcome> moved = simulate(policy, settings, setup, second);
  if (!moved) return Error{moved.error()};
  run.outcome = std::move(*moved);
  if (run.outcome.stopped) {
    run.moves = {.limit = limit};
    return run;
  }
  run.moves.late_without = stayed->measured - without.in_time();
  run.moves.late_with = run.outcome.measured - in_time;
  return run;
}

}  // namespace rubato::sim
