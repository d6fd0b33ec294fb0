// SPDX-License-Identifier: Apache-2.0
#include "planning/tune_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/limits.h"
#include "planning/search.h"

namespace rubato::planning {
namespace {

// A screened score up to this is near enough to be confirmed: seeds differ.
constexpr double kNear = 1.2;
// A setting is changed for a gain of this share at least: less may be chance.
constexpr double kWorthwhile = 0.02;
// Beyond this score settings are not looked at: none makes an order of magnitude.
constexpr double kHopeless = 10;
// Steps of the descent: how many settings differ from their defaults at most.
constexpr int kMostSteps = 4;

struct Entry {
  Configuration configuration;
  double screened = 0;
};

class Search {
 public:
  Search(Trials& trials, const std::vector<std::string>& policies)
      : trials_(trials), policies_(policies) {}

  TuneResult run(uint32_t least, uint32_t most) {
    const uint32_t count = most - least + 1;
    const uint32_t too_few =
        exponential_search(count, [&](uint32_t k) { return !meets_by_default(least + k - 1); });
    uint32_t workers = least + too_few;
    if (too_few == count) {
      if (!conceivable()) return {false, false, ranking(most, false)};
      if (!meets_tuned(workers = most)) return {false, true, ranking(most, true)};
    }
    workers -= exponential_search(workers - least,
                                  [&](uint32_t k) { return meets_tuned(workers - k); });
    TuneResult result{true, true, ranking(workers, true)};
    result.met = result.ranking.front().score <= 1;
    return result;
  }

 private:
  std::vector<Entry> defaults(uint32_t workers) {
    std::vector<Configuration> configurations;
    for (const std::string& policy : policies_) configurations.push_back({workers, {policy, {}}});
    const std::vector<double> scores = trials_.screen(configurations);
    std::vector<Entry> entries;
    for (size_t i = 0; i < scores.size(); ++i) entries.push_back({configurations[i], scores[i]});
    sort_by(entries, &Entry::screened);
    return entries;
  }

  bool confirmed(const Entry& entry) {
    return entry.screened <= kNear && trials_.confirm(entry.configuration) <= 1;
  }

  bool meets_by_default(uint32_t workers) {
    for (const Entry& entry : defaults(workers)) {
      if (confirmed(entry)) return true;
    }
    return false;
  }

  // Where hardly anybody waits, settings do not matter: a limit below the service time itself is
  // found out without trying them.
  bool conceivable() { return defaults(limits::kMaxWorkers).front().screened <= kNear; }

  bool meets_tuned(uint32_t workers) {
    for (const Entry& entry : defaults(workers)) {
      if (confirmed(entry) || confirmed(improved(entry))) return true;
    }
    return false;
  }

  // Steepest descent: all options one at a time, the best of them is kept, and so on. Options that
  // made no difference at first, or had no effect with the others, are not asked again.
  Entry improved(Entry best) {
    if (best.screened > kHopeless) return best;
    std::vector<Parameter> parameters = parameters_of(best.configuration.candidate.policy);
    for (int step = 0; step < kMostSteps && !parameters.empty(); ++step) {
      const std::optional<Entry> better = best_step(best, parameters);
      if (!better) break;
      best = *better;
    }
    return best;
  }

  std::optional<Entry> best_step(const Entry& from, std::vector<Parameter>& parameters) {
    std::vector<Configuration> steps;
    std::vector<size_t> parameter_of;
    for (size_t i = 0; i < parameters.size(); ++i) {
      for (const Configuration& step : steps_of(from.configuration, parameters[i])) {
        steps.push_back(step);
        parameter_of.push_back(i);
      }
    }
    const std::vector<double> scores = trials_.screen(steps);
    std::optional<Entry> best;
    std::vector<bool> matters(parameters.size(), false);
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] != from.screened) matters[parameter_of[i]] = true;
      const double goal = best ? best->screened : from.screened * (1 - kWorthwhile);
      if (scores[i] < goal) best = Entry{steps[i], scores[i]};
    }
    drop(parameters, matters);
    return best;
  }

  static std::vector<Configuration> steps_of(const Configuration& from,
                                             const Parameter& parameter) {
    std::vector<std::string> values = parameter.alternatives;
    values.push_back(parameter.default_value);
    const sim::Settings& settings = from.candidate.settings;
    std::vector<Configuration> steps;
    for (const std::string& value : values) {
      if (value == value_of(settings, parameter)) continue;
      steps.push_back({from.workers, from.candidate});
      steps.back().candidate.settings = with_parameter(settings, parameter, value);
      if (!check_together(steps.back().candidate)) steps.pop_back();
    }
    return steps;
  }

  static void drop(std::vector<Parameter>& parameters, const std::vector<bool>& kept) {
    std::vector<Parameter> left;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (kept[i]) left.push_back(std::move(parameters[i]));
    }
    parameters = std::move(left);
  }

  // Each policy with its defaults or, if `tuned`, with better settings, whichever is confirmed to
  // be better.
  std::vector<Scored> ranking(uint32_t workers, bool tuned) {
    std::vector<Scored> ranking;
    for (const Entry& entry : defaults(workers)) {
      Scored best{entry.configuration, trials_.confirm(entry.configuration)};
      const Entry better = tuned ? improved(entry) : entry;
      if (!better.configuration.candidate.settings.empty()) {
        const double score = trials_.confirm(better.configuration);
        if (score < best.score * (1 - kWorthwhile)) best = {better.configuration, score};
      }
      ranking.push_back(std::move(best));
    }
    sort_by(ranking, &Scored::score);
    return ranking;
  }

  // By rising score; what is equal, in the order of the policies.
  template <class T>
  void sort_by(std::vector<T>& entries, double T::* score) const {
    const auto place = [&](const T& entry) {
      return std::find(policies_.begin(), policies_.end(), entry.configuration.candidate.policy);
    };
    std::sort(entries.begin(), entries.end(), [&](const T& a, const T& b) {
      return a.*score != b.*score ? a.*score < b.*score : place(a) < place(b);
    });
  }

  Trials& trials_;
  const std::vector<std::string>& policies_;
};

}  // namespace

std::string text_of(const Configuration& configuration) {
  std::string text = configuration.candidate.policy;
  for (const auto& [name, value] : configuration.candidate.settings) {
    text += fmt::format(" {}={}", name, value);
  }
  return text + fmt::format(" with {} worker{}", configuration.workers,
                            configuration.workers == 1 ? "" : "s");
}

TuneResult tune(Trials& trials, const std::vector<std::string>& policies, uint32_t least_workers,
                uint32_t most_workers) {
  RUBATO_CHECK(!policies.empty() && least_workers >= 1 && least_workers <= most_workers);
  return Search(trials, policies).run(least_workers, most_workers);
}

}  // namespace rubato::planning
