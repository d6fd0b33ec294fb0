// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_runs.h"

#include <optional>

#include "cli/parallel.h"
#include "cli/progress.h"
#include "cli/sim_outcomes.h"

namespace rubato::cli {
namespace {

// The runs, as tasks: loads of contenders of seeds.
class Runs {
 public:
  Runs(const SimOptions& options, sim::Trace* trace)
      : options_(options),
        trace_(trace),
        results_(options.loads.size() * options.contenders.size() * options.seeds) {}

  size_t count() const { return results_.size(); }

  bool simulate(size_t i, const Step& step) {
    const size_t cell = i / options_.seeds;
    const double load = options_.loads[cell / options_.contenders.size()];
    const sim::Setup setup = setup_at(options_, load, static_cast<uint32_t>(i % options_.seeds));
    sim::Watch watch;
    watch.trace = trace_;
    watch.progress = [&](double done) {
      return step(done) && (trace_ == nullptr || !trace_->failed());
    };
    results_[i].emplace(simulated_report(options_, contender_of(cell), setup, watch));
    return results_[i]->ok();
  }

  // After all have run.
  Result<std::vector<sim::SimReport>> reports() {
    for (const auto& result : results_) {
      if (result && !result->ok()) return Error{result->error()};
    }
    std::vector<sim::SimReport> reports;
    for (size_t first = 0; first < count(); first += options_.seeds) {
      std::vector<sim::SimReport> seeds;
      for (size_t i = first; i < first + options_.seeds; ++i) {
        if (results_[i]) seeds.push_back(std::move(results_[i]->value()));
      }
      if (seeds.empty()) break;
      reports.push_back(sim::average(seeds));
      if (seeds.size() < options_.seeds) mark_stopped(reports.back());
      describe(contender_of(first / options_.seeds), reports.back().run);
    }
    return reports;
  }

 private:
  const Contender& contender_of(size_t cell) const {
    return options_.contenders[cell % options_.contenders.size()];
  }

  static void mark_stopped(sim::SimReport& report) {
    report.run.valid = false;
    report.run.invalid_reason = sim::kStoppedEarly;
  }

  void describe(const Contender& contender, RunReport& run) const {
    run.policy = contender.policy;
    run.settings = options_.notes;
    for (const auto& [name, value] : contender.settings) run.settings.emplace_back(name, value);
  }

  const SimOptions& options_;
  sim::Trace* trace_;
  std::vector<std::optional<Result<sim::SimReport>>> results_;
};

}  // namespace

Result<std::vector<sim::SimReport>> run_simulations(const SimOptions& options, sim::Trace* trace,
                                                    bool progress,
                                                    const std::atomic<bool>& stop) {
  Runs runs(options, trace);
  Progress line(progress);
  run_parallel(
      runs.count(), options.threads, stop,
      [&](size_t i, const Step& step) { return runs.simulate(i, step); },
      [&](double done) { line.draw(done); });
  return runs.reports();
}

}  // namespace rubato::cli
