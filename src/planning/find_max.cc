// SPDX-License-Identifier: Apache-2.0
#include "planning/find_max.h"

#include <cmath>
#include <optional>

#include "planning/parallel.h"
#include "planning/search.h"

namespace rubato::planning {
namespace {

// The loads that are tried: multiples of the precision, the last of them --max-load.
class Steps {
 public:
  explicit Steps(const Experiment& o)
      : precision_(o.precision),
        max_load_(o.max_load),
        count_(static_cast<uint32_t>(std::ceil(o.max_load / o.precision - 1e-6))) {}

  uint32_t count() const { return count_; }
  double runs() const { return std::ceil(std::log2(count_ + 1.0)); }  // of a bisection
  double load(uint32_t step) const {
    return step == count_ ? max_load_ : std::round(step * precision_ * 1e9) / 1e9;
  }

 private:
  double precision_, max_load_;
  uint32_t count_;
};

// One seed of one candidate.
struct Search {
  std::optional<double> load;  // once found
  bool at_most = false;
  uint64_t runs = 0, requests = 0, events = 0;
  double wall_s = 0;
  sim::SimReport last;
  std::string error;
};

class Searches {
 public:
  explicit Searches(const Experiment& experiment)
      : experiment_(experiment),
        steps_(experiment),
        searches_(experiment.candidates.size() * experiment.seeds) {}

  size_t count() const { return searches_.size(); }

  bool search(size_t i, const TaskProgress& progress) {
    Search& search = searches_[i];
    const auto found = binary_search(
        steps_.count(), [&](uint32_t at) { return meets(i, steps_.load(at), progress); });
    if (found) {
      search.load = *found == 0 ? 0 : steps_.load(*found);
      search.at_most = *found == steps_.count();
    }
    return search.error.empty();
  }

  Result<std::vector<MaxLoad>> results() const {
    std::vector<MaxLoad> results;
    for (size_t c = 0; c < experiment_.candidates.size(); ++c) {
      MaxLoad max;
      max.candidate = experiment_.candidates[c];
      for (size_t i = c * experiment_.seeds; i < (c + 1) * experiment_.seeds; ++i) {
        if (!searches_[i].error.empty()) return Error{searches_[i].error};
        if (searches_[i].load) add(searches_[i], max);
      }
      if (max.loads.size() < experiment_.seeds) continue;
      max.load = sim::estimate(max.loads);
      results.push_back(std::move(max));
    }
    return results;
  }

 private:
  std::optional<bool> meets(size_t i, double load, const TaskProgress& progress) {
    Search& search = searches_[i];
    const Candidate& candidate = experiment_.candidates[i / experiment_.seeds];
    const auto seed = static_cast<uint32_t>(i % experiment_.seeds);
    const sim::Setup setup = setup_at(experiment_, load, seed);
    sim::Watch watch;
    watch.progress = [&](double done) {
      return progress((static_cast<double>(search.runs) + done) / steps_.runs());
    };
    Result<sim::Outcome> outcome =
        sim::simulate(candidate.policy, candidate.settings, setup, watch);
    if (!outcome) {
      search.error = outcome.error();
      return std::nullopt;
    }
    search.last = sim::make_report(setup, *outcome);
    // A seed is one sample of the load, by the figures themselves: the interval is that of the
    // loads of all seeds.
    search.last.confidence.clear();
    search.last.steadiness = {};
    search.last.run.policy = candidate.policy;
    ++search.runs;
    search.requests += search.last.requests;
    search.events += search.last.events;
    search.wall_s += search.last.run.wall_s;
    if (outcome->stopped || !progress(static_cast<double>(search.runs) / steps_.runs())) {
      return std::nullopt;
    }
    return judge(experiment_.slo, search.last).verdict == SloVerdict::kMet;
  }

  static void add(const Search& search, MaxLoad& max) {
    if (max.loads.empty()) max.last = search.last;
    max.loads.push_back(*search.load);
    max.at_most += search.at_most ? 1 : 0;
    max.runs += search.runs;
    max.requests += search.requests;
    max.events += search.events;
    max.wall_s += search.wall_s;
  }

  const Experiment& experiment_;
  Steps steps_;
  std::vector<Search> searches_;
};

}  // namespace

Result<std::vector<MaxLoad>> find_max(const Experiment& experiment, const std::atomic<bool>& stop,
                                      const std::function<void(double)>& show_progress) {
  Searches searches(experiment);
  run_parallel(
      searches.count(), experiment.threads, stop,
      [&](size_t i, const TaskProgress& progress) { return searches.search(i, progress); },
      show_progress);
  return searches.results();
}

}  // namespace rubato::planning
