// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/broker.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace rubato::overload {

CoreBroker::CoreBroker(std::vector<uint32_t> cpus, Nanos grace, Nanos patience)
    : cpus_(std::move(cpus)), grace_(grace), patience_(patience), free_(cpus_) {
  RUBATO_CHECK(!cpus_.empty());
}

Result<CoreBroker::Server> CoreBroker::join(std::unique_ptr<CoreRule> rule, CoreClaim claim,
                                            Instant at) {
  RUBATO_CHECK(claim.guaranteed > 0 && claim.limit >= claim.guaranteed);
  size_t left = cpus_.size();
  for (const auto& [_, other] : servers_) left -= other.view.claim.guaranteed;
  if (servers_.size() == kMostServers || claim.guaranteed > left) {
    ++counts_.refused;
    return Error{servers_.size() == kMostServers
                     ? "there are " + std::to_string(kMostServers) + " servers already"
                     : std::to_string(claim.guaranteed) + " guaranteed cores do not fit: " +
                           std::to_string(left) + " of " + std::to_string(cpus_.size()) +
                           " are not promised to others"};
  }
  const Server server = next_++;
  Member& member = servers_[server];
  member.rule = std::move(rule);
  member.view.server = server;
  member.view.claim = {claim.guaranteed,
                       std::min(claim.limit, static_cast<uint32_t>(cpus_.size()))};
  member.heard_at = at;
  renumber(member);
  settle(at);
  return server;
}

void CoreBroker::leave(Server server, Instant at) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return;
  while (found->second.held() > 0) free_one(found->second);
  servers_.erase(found);
  settle(at);
}

void CoreBroker::report(Server server, const CoreReport& report, Instant at) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return;
  Member& member = found->second;
  member.heard_at = at;
  member.view.hung = false;
  member.view.cores = report.cores;
  member.view.delay = report.signals.max_delay;
  if (report.order == member.view.order.number) {
    take_answer(member, report);
    CoreSignals signals = report.signals;
    signals.cores = member.kept();
    signals.limit = member.view.claim.limit;
    const CoreChange change = member.rule->change(signals);
    // A worker that only it may serve has taken its core back by itself.
    member.wants = change == CoreChange::kGrant || report.cores > member.held();
    if (member.wants && keep_one(member)) member.wants = false;
    if (change == CoreChange::kRelease && member.beyond() > 0) ask_back(member, {at, true});
  } else {
    ++counts_.late;
  }
  settle(at);
}

// Cores that the server has parked are free; those that it was asked for come first.
void CoreBroker::take_answer(Member& member, const CoreReport& report) {
  const uint32_t used = std::max(report.cores, member.view.claim.guaranteed);
  while (member.held() > used) {
    free_one(member);
    ++member.view.given_back;
  }
}

void CoreBroker::pass(Instant at) {
  for (auto& [_, member] : servers_) {
    if (!member.view.hung && at - member.heard_at >= patience_) {
      member.view.hung = true;
      member.wants = false;
      ++counts_.hung;
      while (member.held() > 0) free_one(member);
    }
    while (!member.asked.empty() && at - member.asked.front().at >= grace_) {
      free_one(member);
      ++member.view.taken;
    }
  }
  settle(at);
}

Instant CoreBroker::due() const {
  Instant first = Instant::never();
  for (const auto& [_, member] : servers_) {
    if (!member.view.hung) first = std::min(first, member.heard_at + patience_);
    if (!member.asked.empty()) first = std::min(first, member.asked.front().at + grace_);
  }
  return first;
}

void CoreBroker::ask_back(Member& member, Ask ask) {
  member.asked.push_back(ask);
  member.wants = false;
  renumber(member);
}

// False: nothing is asked back that no other server waits for.
bool CoreBroker::keep_one(Member& member) {
  const auto last = std::find_if(member.asked.rbegin(), member.asked.rend(),
                                 [](const Ask& ask) { return ask.released; });
  if (last == member.asked.rend()) return false;
  member.asked.erase(std::next(last).base());
  renumber(member);
  return true;
}

// The one that it got last.
void CoreBroker::free_one(Member& member) {
  const uint32_t cpu = member.view.order.cpus.back();
  member.view.order.cpus.pop_back();
  if (!member.asked.empty()) member.asked.pop_front();
  last_[cpu] = member.view.server;
  free_.push_back(cpu);
  renumber(member);
}

// A CPU that it had before, whose caches may still know it; else the one that is free for longest.
void CoreBroker::give(Member& member) {
  auto chosen = std::find_if(free_.begin(), free_.end(), [&](uint32_t cpu) {
    const auto had = last_.find(cpu);
    return had != last_.end() && had->second == member.view.server;
  });
  if (chosen == free_.end()) chosen = free_.begin();
  const auto had = last_.find(*chosen);
  if (had != last_.end() && had->second != member.view.server) ++counts_.moves;
  if (member.held() >= member.view.claim.guaranteed) ++member.view.granted;
  member.view.order.cpus.push_back(*chosen);
  free_.erase(chosen);
  member.wants = false;
  renumber(member);
}

// One core for each that wants one, as the rules grant them; guaranteed ones all at once.
void CoreBroker::settle(Instant at) {
  uint32_t returning = 0;
  for (const auto& [_, member] : servers_) {
    returning += static_cast<uint32_t>(member.asked.size());
  }
  for (Member* member : wanting()) {
    const uint32_t needed = member->lacks() ? member->view.claim.guaranteed - member->kept() : 1;
    for (uint32_t i = 0; i < needed; ++i) {
      if (!free_.empty()) {
        give(*member);
      } else if (returning > 0) {
        --returning;  // one is on its way already
      } else if (Member* const victim = victim_for(*member); victim != nullptr) {
        ask_back(*victim, {at});
      }
    }
  }
}

// Those below their guaranteed cores first, then those with the fewest beyond them, and of these
// the one whose requests wait for longest.
std::vector<CoreBroker::Member*> CoreBroker::wanting() {
  std::vector<Member*> all;
  for (auto& [_, member] : servers_) {
    const bool may = member.asked.empty() && member.held() < member.view.claim.limit;
    if (may && (member.lacks() || member.wants)) all.push_back(&member);
  }
  const auto rank = [](const Member* m) {
    return std::tuple(!m->lacks(), m->beyond(), -m->view.delay.count(), m->view.server);
  };
  std::sort(all.begin(), all.end(),
            [&](const Member* a, const Member* b) { return rank(a) < rank(b); });
  return all;
}

CoreBroker::Member* CoreBroker::victim_for(const Member& wanting) {
  const uint32_t least = wanting.lacks() ? 1 : wanting.beyond() + 2;
  Member* victim = nullptr;
  for (auto& [_, member] : servers_) {
    if (&member == &wanting || member.beyond() < least) continue;
    if (victim == nullptr || member.beyond() > victim->beyond()) victim = &member;
  }
  return victim;
}

void CoreBroker::renumber(Member& member) {
  ++member.view.order.number;
  member.view.order.cores = member.kept();
}

std::vector<CoreBroker::View> CoreBroker::view() const {
  std::vector<View> all;
  for (const auto& [_, member] : servers_) all.push_back(member.view);
  return all;
}

}  // namespace rubato::overload
