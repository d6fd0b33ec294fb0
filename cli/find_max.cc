// SPDX-License-Identifier: Apache-2.0
#include "cli/find_max.h"

#include <cmath>
#include <optional>

#include "cli/bisect.h"
#include "cli/parallel.h"
#include "cli/progress.h"

namespace rubato::cli {
namespace {

// The loads that are tried: multiples of the precision, the last of them --max-load.
class Steps {
 public:
  explicit Steps(const SimOptions& o)
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

// One seed of one contender.
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
  explicit Searches(const SimOptions& options)
      : options_(options),
        steps_(options),
        searches_(options.contenders.size() * options.seeds) {}

  size_t count() const { return searches_.size(); }

  bool search(size_t i, const Step& step) {
    Search& search = searches_[i];
    const auto found = highest_met(
        steps_.count(), [&](uint32_t at) { return meets(i, steps_.load(at), step); });
    if (found) {
      search.load = *found == 0 ? 0 : steps_.load(*found);
      search.at_most = *found == steps_.count();
    }
    return search.error.empty();
  }

  Result<std::vector<MaxLoad>> results() const {
    std::vector<MaxLoad> results;
    for (size_t c = 0; c < options_.contenders.size(); ++c) {
      MaxLoad max;
      max.contender = options_.contenders[c];
      for (size_t i = c * options_.seeds; i < (c + 1) * options_.seeds; ++i) {
        if (!searches_[i].error.empty()) return Error{searches_[i].error};
        if (searches_[i].load) add(searches_[i], max);
      }
      if (max.loads.size() < options_.seeds) continue;
      max.load = sim::estimate(max.loads);
      results.push_back(std::move(max));
    }
    return results;
  }

 private:
  std::optional<bool> meets(size_t i, double load, const Step& step) {
    Search& search = searches_[i];
    const Contender& contender = options_.contenders[i / options_.seeds];
    const sim::Setup setup = setup_at(options_, load, static_cast<uint32_t>(i % options_.seeds));
    sim::Watch watch;
    watch.progress = [&](double done) {
      return step((static_cast<double>(search.runs) + done) / steps_.runs());
    };
    Result<sim::Outcome> outcome =
        sim::simulate(contender.policy, contender.settings, setup, watch);
    if (!outcome) {
      search.error = outcome.error();
      return std::nullopt;
    }
    search.last = sim::make_report(setup, *outcome);
    search.last.run.policy = contender.policy;
    ++search.runs;
    search.requests += search.last.requests;
    search.events += search.last.events;
    search.wall_s += search.last.run.wall_s;
    if (!search.last.run.valid || !step(static_cast<double>(search.runs) / steps_.runs())) {
      return std::nullopt;
    }
    return judge(options_.slo, search.last).verdict == Verdict::kMet;
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

  const SimOptions& options_;
  Steps steps_;
  std::vector<Search> searches_;
};

}  // namespace

Result<std::vector<MaxLoad>> find_max(const SimOptions& options, bool progress,
                                      const std::atomic<bool>& stop) {
  Searches searches(options);
  Progress line(progress);
  run_parallel(
      searches.count(), options.threads, stop,
      [&](size_t i, const Step& step) { return searches.search(i, step); },
      [&](double done) { line.draw(done); });
  return searches.results();
}

}  // namespace rubato::cli
