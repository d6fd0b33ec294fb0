// SPDX-License-Identifier: Apache-2.0
#include "planning/runs.h"

#include <optional>
#include <utility>

#include "planning/parallel.h"
#include "sim/outcomes.h"

namespace rubato::planning {
namespace {

Nanos limit_of(const OutcomesLimit& limit, const WorkloadSpec& workload) {
  if (limit.services == 0) return limit.time;
  return Nanos(static_cast<int64_t>(limit.services * mean_service_ns(workload)));
}

// The report of one run, with outcomes or a timeline if they are asked for. Safe on every thread.
Result<sim::SimReport> simulated_report(const Experiment& experiment, const Candidate& candidate,
                                        const sim::Setup& setup, sim::Watch watch) {
  if (!experiment.outcomes.given()) {
    Sufficiency sufficiency(experiment.until);
    if (experiment.until.given()) {
      watch.enough = [&](const sim::Outcome& so_far) {
        return sufficiency.reached_by(sim::make_report(setup, so_far));
      };
    }
    std::optional<sim::Timeline> timeline;
    if (experiment.over_time > Nanos()) {
      timeline.emplace(experiment.over_time, types_of(setup.workload).size());
      watch.done = [&](const sim::Watch::Done& done) {
        timeline->note(done.sent, done.type, done.latency);
      };
    }
    auto outcome = sim::simulate(candidate.policy, candidate.settings, setup, watch);
    if (!outcome) return Error{outcome.error()};
    sim::SimReport report = sim::make_report(setup, *outcome);
    report.over_time = std::move(timeline);
    report.until = reached(experiment.until, report);
    report.bounded = experiment.until.given() && report.requests == setup.requests ? 1 : 0;
    report.most_requests = setup.requests;
    return report;
  }
  auto run = sim::simulate_and_judge(candidate.policy, candidate.settings, setup,
                                     limit_of(experiment.outcomes, setup.workload), watch);
  if (!run) return Error{run.error()};
  sim::SimReport report = sim::make_report(setup, run->outcome);
  if (report.run.valid) report.moves = run->moves;
  return report;
}

// The runs, as tasks: loads of candidates of seeds.
class Runs {
 public:
  Runs(const Experiment& experiment, Trace* trace)
      : experiment_(experiment),
        trace_(trace),
        results_(experiment.loads.size() * experiment.candidates.size() * experiment.seeds) {}

  size_t count() const { return results_.size(); }

  bool simulate(size_t i, const TaskProgress& progress) {
    const size_t cell = i / experiment_.seeds;
    const double load = experiment_.loads[cell / experiment_.candidates.size()];
    const auto seed = static_cast<uint32_t>(i % experiment_.seeds);
    const sim::Setup setup = setup_at(experiment_, load, seed);
    sim::Watch watch;
    watch.trace = trace_;
    watch.progress = [&](double done) {
      return progress(done) && (trace_ == nullptr || !trace_->failed());
    };
    results_[i].emplace(simulated_report(experiment_, candidate_of(cell), setup, watch));
    return results_[i]->ok();
  }

  // After all have run.
  Result<std::vector<sim::SimReport>> reports() {
    for (const auto& result : results_) {
      if (result && !result->ok()) return Error{result->error()};
    }
    std::vector<sim::SimReport> reports;
    for (size_t first = 0; first < count(); first += experiment_.seeds) {
      std::vector<sim::SimReport> seeds;
      for (size_t i = first; i < first + experiment_.seeds; ++i) {
        if (results_[i]) seeds.push_back(std::move(results_[i]->value()));
      }
      if (seeds.empty()) break;
      reports.push_back(sim::average(seeds));
      if (seeds.size() > 1) reports.back().until = reached(experiment_.until, reports.back());
      if (seeds.size() < experiment_.seeds) mark_stopped(reports.back());
      describe(candidate_of(first / experiment_.seeds), reports.back().run);
    }
    return reports;
  }

 private:
  const Candidate& candidate_of(size_t cell) const {
    return experiment_.candidates[cell % experiment_.candidates.size()];
  }

  static void mark_stopped(sim::SimReport& report) {
    report.run.valid = false;
    report.run.invalid_reason = sim::kStoppedEarly;
  }

  void describe(const Candidate& candidate, RunReport& run) const {
    run.policy = candidate.policy;
    run.settings = experiment_.notes;
    for (const auto& [name, value] : candidate.settings) run.settings.emplace_back(name, value);
  }

  const Experiment& experiment_;
  Trace* trace_;
  std::vector<std::optional<Result<sim::SimReport>>> results_;
};

}  // namespace

Result<std::vector<sim::SimReport>> run_simulations(
    const Experiment& experiment, Trace* trace, const std::atomic<bool>& stop,
    const std::function<void(double)>& show_progress) {
  Runs runs(experiment, trace);
  run_parallel(
      runs.count(), experiment.threads, stop,
      [&](size_t i, const TaskProgress& progress) { return runs.simulate(i, progress); },
      show_progress);
  return runs.reports();
}

}  // namespace rubato::planning
