// SPDX-License-Identifier: Apache-2.0
#include "planning/tune_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
// What is certainly beyond this is hopeless: it gets no longer runs, nor another step.
constexpr double kHopeless = 4;
// Steps of the descent: how many settings differ from their defaults at most.
constexpr int kMostSteps = 4;
// The rounds of successive halving: shares of the full length of a run, each three times the one
// before, and of as many candidates as cost no more than the round before.
constexpr double kRounds[] = {1.0 / 9, 1.0 / 3, 1};
constexpr size_t kKeptOf = 3;
constexpr size_t kFewestKept = 2;

struct Entry {
  Configuration configuration;
  Score screened;
};

bool better(const Entry& a, const Entry& b) { return a.screened.score < b.screened.score; }

bool hopeless(const Entry& entry) { return entry.screened.least > kHopeless; }

class Search {
 public:
  Search(Trials& trials, const SearchSpace& space)
      : trials_(trials), policies_(space.policies), times_(space.times) {
    for (const std::string& policy : policies_) starts_[policy] = start_of(policy, times_);
  }

  TuneResult run(uint32_t least, uint32_t most) {
    const uint32_t count = most - least + 1;
    const uint32_t too_few =
        exponential_search(count, [&](uint32_t k) { return !meets_by_default(least + k - 1); });
    uint32_t workers = least + too_few;
    if (too_few == count) {
      if (!conceivable()) return {false, false, ranking(most, false), {}};
      if (!meets_tuned(workers = most)) return {false, true, ranking(most, true), {}};
    }
    workers -= exponential_search(workers - least,
                                  [&](uint32_t k) { return meets_tuned(workers - k); });
    TuneResult result{true, true, ranking(workers, true), {}};
    result.met = result.ranking.front().score <= 1;
    if (workers > least) result.with_fewer = ranking(workers - 1, true).front();
    return result;
  }

 private:
  std::vector<Entry> screened(const std::vector<Configuration>& configurations, double share) {
    const std::vector<Score> scores = trials_.screen(configurations, share);
    std::vector<Entry> entries;
    for (size_t i = 0; i < scores.size(); ++i) entries.push_back({configurations[i], scores[i]});
    return entries;
  }

  // By short runs, the best first.
  std::vector<Entry> ranked(const std::vector<Configuration>& configurations) {
    std::vector<Entry> entries = screened(configurations, kRounds[0]);
    std::stable_sort(entries.begin(), entries.end(), better);
    return entries;
  }

  Configuration start(const std::string& policy, uint32_t workers) const {
    return {workers, {policy, starts_.at(policy)}};
  }

  // The policy as it is, and with the settings that were best for other numbers of workers.
  std::vector<Configuration> known(const std::string& policy, uint32_t workers) const {
    std::vector<Configuration> configurations{start(policy, workers)};
    const auto found = best_settings_.find(policy);
    if (found != best_settings_.end() && !found->second.empty()) {
      configurations.push_back({workers, {policy, found->second}});
    }
    return configurations;
  }

  // The better of what is known of each policy by short runs, the best policy first.
  std::vector<Entry> best_known(uint32_t workers) {
    std::vector<Configuration> configurations;
    for (const std::string& policy : policies_) {
      for (Configuration& one : known(policy, workers)) configurations.push_back(std::move(one));
    }
    std::vector<Entry> best;
    for (Entry& entry : ranked(configurations)) {
      const std::string& policy = entry.configuration.candidate.policy;
      const bool seen = std::any_of(best.begin(), best.end(), [&](const Entry& other) {
        return other.configuration.candidate.policy == policy;
      });
      if (!seen) best.push_back(std::move(entry));
    }
    return best;
  }

  std::vector<Entry> defaults(uint32_t workers) {
    std::vector<Configuration> configurations;
    for (const std::string& policy : policies_) configurations.push_back(start(policy, workers));
    return ranked(configurations);
  }

  // By a full run, if a short one leaves any hope.
  Entry in_full(const Entry& entry) {
    return hopeless(entry) ? entry : screened({entry.configuration}, 1).front();
  }

  bool confirmed(const Entry& entry) {
    return entry.screened.score <= kNear && trials_.confirm(entry.configuration).score <= 1;
  }

  bool meets_by_default(uint32_t workers) {
    for (const Entry& entry : defaults(workers)) {
      if (confirmed(in_full(entry))) return true;
    }
    return false;
  }

  // Where hardly anybody waits, settings do not matter: a limit below the service time itself is
  // found out without trying them.
  bool conceivable() {
    for (const Entry& entry : defaults(limits::kMaxWorkers)) {
      if (in_full(entry).screened.score <= kNear) return true;
    }
    return false;
  }

  bool meets_tuned(uint32_t workers) {
    std::vector<Entry> entries = best_known(workers);
    for (Entry& entry : entries) {
      entry = in_full(entry);
      if (confirmed(entry)) return true;
    }
    for (const Entry& entry : entries) {
      if (confirmed(improved(entry))) return true;
    }
    return false;
  }

  // Steepest descent: all options one at a time, the best of them is kept, and so on. Options that
  // made no difference at first, or had no effect with the others, are not asked again.
  Entry improved(const Entry& from) {
    const Candidate& candidate = from.configuration.candidate;
    const std::string key = text_of({from.configuration.workers, {candidate.policy, {}}});
    if (const auto known = improved_.find(key); known != improved_.end()) return known->second;
    Entry best = from;
    std::vector<Parameter> parameters = parameters_of(candidate.policy, times_);
    for (int step = 0; step < kMostSteps && !parameters.empty(); ++step) {
      const std::optional<Entry> found = best_step(best, parameters);
      if (found) best = *found;
      if (!found || hopeless(best)) break;
    }
    if (better(best, from)) {
      best_settings_[candidate.policy] = best.configuration.candidate.settings;
    }
    return improved_[key] = best;
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
    std::vector<Configuration> with_from = steps;
    with_from.push_back(from.configuration);
    const std::vector<Entry> first = screened(with_from, kRounds[0]);
    std::vector<bool> matters(parameters.size(), false);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (first[i].screened.score != first.back().screened.score) matters[parameter_of[i]] = true;
    }
    drop(parameters, matters);
    const std::optional<Entry> best = halved({first.begin(), first.end() - 1});
    const double goal = from.screened.score * (1 - kWorthwhile);
    return best && best->screened.score < goal ? best : std::nullopt;
  }

  // The best of those that have been through the first round.
  std::optional<Entry> halved(std::vector<Entry> entries) {
    for (size_t round = 1; round < std::size(kRounds); ++round) {
      std::stable_sort(entries.begin(), entries.end(), better);
      if (entries.empty() || hopeless(entries.front())) break;
      const size_t kept = std::max(entries.size() / kKeptOf, kFewestKept);
      entries.resize(std::min(entries.size(), kept));
      std::vector<Configuration> left;
      for (const Entry& entry : entries) left.push_back(entry.configuration);
      entries = screened(left, kRounds[round]);
    }
    const auto best = std::min_element(entries.begin(), entries.end(), better);
    return best == entries.end() ? std::nullopt : std::optional(*best);
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
  // be better; the best first, and what is equal in the order of the policies.
  std::vector<Scored> ranking(uint32_t workers, bool tuned) {
    std::vector<Scored> ranking;
    for (const std::string& policy : policies_) {
      Scored best = scored(in_full(ranked({start(policy, workers)}).front()));
      if (tuned) take_better(improved_from_known(policy, workers), best);
      ranking.push_back(std::move(best));
    }
    std::stable_sort(ranking.begin(), ranking.end(),
                     [](const Scored& a, const Scored& b) { return a.score < b.score; });
    ranking.front() = confirmed_score(ranking.front().configuration);
    return ranking;
  }

  Entry improved_from_known(const std::string& policy, uint32_t workers) {
    return improved(in_full(ranked(known(policy, workers)).front()));
  }

  void take_better(const Entry& entry, Scored& best) {
    const Candidate& candidate = entry.configuration.candidate;
    if (candidate.settings == starts_.at(candidate.policy)) return;
    const Scored found = scored(entry);
    if (found.score < best.score * (1 - kWorthwhile)) best = found;
  }

  Scored scored(const Entry& entry) {
    const Score& screened = entry.screened;
    if (screened.score > kNear) return {entry.configuration, screened.score, screened.least};
    return confirmed_score(entry.configuration);
  }

  Scored confirmed_score(const Configuration& configuration) {
    const Score score = trials_.confirm(configuration);
    return {configuration, score.score, score.least};
  }

  Trials& trials_;
  const std::vector<std::string>& policies_;
  const TimeRange times_;
  std::map<std::string, sim::Settings> starts_;         // of each policy
  std::map<std::string, sim::Settings> best_settings_;  // of each policy, for the last workers
  std::map<std::string, Entry> improved_;               // by policy and workers
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

TuneResult tune(Trials& trials, const SearchSpace& space) {
  RUBATO_CHECK(!space.policies.empty() && space.least_workers >= 1 &&
               space.least_workers <= space.most_workers);
  return Search(trials, space).run(space.least_workers, space.most_workers);
}

}  // namespace rubato::planning
