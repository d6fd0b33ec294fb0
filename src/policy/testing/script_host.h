// SPDX-License-Identifier: Apache-2.0
//
// ScriptHost<P>: the plainest true host. One deque per queue, kept in its order, a clock that the
// test moves, a plan that the test publishes, and a record of every verb the policy used.
// Single-threaded; owns its queues, never the jobs.
//
// Beside the verbs of the contract it has, as all hosts of this folder do, `waiting(q)`: what is in
// a queue, exactly. Tests read it, policies cannot.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/prng.h"
#include "policy/contract.h"
#include "policy/extensions.h"

namespace rubato::testing {

// How many queues `declaration` stands for.
constexpr uint32_t queue_count_of(const QueueDeclaration& declaration, uint32_t workers,
                                  uint32_t managers) {
  if (declaration.scope == Scope::kGlobal) return declaration.queue_count;
  return declaration.scope == Scope::kPerWorker ? workers : managers;
}

template <Policy P>
class ScriptHost {
 public:
  using Plan = typename P::Plan;

  explicit ScriptHost(uint32_t workers, uint64_t seed = 1, Plan plan = {}, uint32_t managers = 0)
      : workers_(workers),
        managers_(managers),
        plan_(plan),
        prng_(seed),
        busy_(workers),
        hints_(workers),
        mailboxes_(managers) {
    RUBATO_CHECK(workers >= 1 && workers <= limits::kMaxWorkers);
    for (const QueueDeclaration& declaration : P::kQueues) {
      queues_.emplace_back(queue_count_of(declaration, workers, managers));
    }
  }

  Instant now() { return now_; }
  uint32_t workers() { return workers_; }
  uint32_t depth(QueueRef q) {
    record("depth", q);
    return static_cast<uint32_t>(at(q).jobs.size());
  }
  uint64_t produced(QueueRef q) {
    record("produced", q);
    return at(q).produced;
  }
  uint64_t consumed(QueueRef q) {
    record("consumed", q);
    return at(q).consumed;
  }
  Instant oldest(QueueRef q) {
    RUBATO_CHECK(P::kQueues[q.declaration].aged);
    record("oldest", q);
    return at(q).jobs.empty() ? Instant::never() : at(q).jobs.front()->arrived;
  }
  uint64_t first_word(QueueRef q) {
    RUBATO_CHECK(is_ordered(q));
    record("first_word", q);
    return at(q).jobs.empty() ? kNoWord : at(q).jobs.front()->policy_word;
  }
  bool busy(WorkerId worker) { return busy_[worker.value]; }
  uint64_t arrived(uint32_t type) {
    RUBATO_CHECK(type < limits::kTypes);
    return arrived_[type];
  }
  Served served(uint32_t type) {
    RUBATO_CHECK(type < limits::kTypes);
    return served_[type];
  }
  Served served_as(JobClass job_class) { return served_as_[static_cast<size_t>(job_class)]; }
  uint64_t hint(WorkerId worker) { return hints_[worker.value]; }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    if (hints_[worker.value] != seen) return false;
    hints_[worker.value] = value;
    return true;
  }
  bool steer(uint64_t flow, WorkerId to) {
    steered_[flow] = to;
    return true;
  }
  bool unsteer(uint64_t flow) { return steered_.erase(flow) > 0; }
  Job* take(QueueRef q) {
    record("take", q);
    return pop(q);
  }
  Job* take_tail(QueueRef q) {
    record("take_tail", q);
    Queue& queue = at(q);
    if (queue.jobs.empty()) return nullptr;
    Job* const job = queue.jobs.back();
    queue.jobs.pop_back();
    ++queue.consumed;
    return job;
  }
  bool put(QueueRef q, Job* job) {
    record("put", q);
    return push(q, job);
  }
  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    record("steal", victim);
    Job* const first = max > 0 ? pop(victim) : nullptr;
    if (first == nullptr) return nullptr;
    for (uint32_t moved = 1; moved < max && !at(victim).jobs.empty(); ++moved) {
      RUBATO_CHECK(push(into, pop(victim)));
    }
    return first;
  }
  uint32_t random(uint32_t n) {
    RUBATO_CHECK(n > 0);
    return prng_.below(n);
  }
  bool send(ManagerId to, const Message& message) {
    std::deque<Message>& mailbox = mailboxes_[to.value];
    if (mailbox.size() >= limits::kMailbox) return false;
    mailbox.push_back(message);
    for (uint32_t i = 0; i < message.jobs; ++i) ++message.job[i]->moves;
    return true;
  }
  bool receive(ManagerId me, Message& message) {
    std::deque<Message>& mailbox = mailboxes_[me.value];
    if (mailbox.empty()) return false;
    message = mailbox.front();
    mailbox.pop_front();
    return true;
  }
  const Plan& plan() { return plan_; }

  // For the test.
  uint32_t managers() const { return managers_; }
  const std::deque<Message>& mailbox(ManagerId manager) { return mailboxes_[manager.value]; }
  // Where requests of that flow arrive, if not at `home`.
  WorkerId arrives_at(uint64_t flow, WorkerId home) const {
    const auto steered = steered_.find(flow);
    return steered != steered_.end() ? steered->second : home;
  }
  void set_now(Instant now) { now_ = now; }
  void publish(const Plan& plan) { plan_ = plan; }
  void set_busy(WorkerId worker, bool busy) { busy_[worker.value] = busy; }
  // One more request of that type came, and one more is done.
  void note_arrived(uint32_t type) { ++arrived_[std::min(type, limits::kTypes - 1)]; }
  void note_served(uint32_t type, Nanos service, Nanos waited,
                   JobClass job_class = JobClass::kShort) {
    for (Served* served : {&served_[std::min(type, limits::kTypes - 1)],
                           &served_as_[static_cast<size_t>(job_class)]}) {
      ++served->count;
      served->service += service;
      served->waited += waited;
    }
  }
  void set_capacity(size_t jobs_per_queue) { capacity_ = jobs_per_queue; }
  size_t room(QueueRef q) { return capacity_ - std::min(capacity_, at(q).jobs.size()); }
  void record_verbs() { recording_ = true; }
  const std::vector<std::string>& verbs() const { return verbs_; }  // "take waiting[0]"
  void forget_verbs() { verbs_.clear(); }
  const std::deque<Job*>& waiting(QueueRef q) { return at(q).jobs; }

  // False = full. Not recorded.
  bool push(QueueRef q, Job* job) {
    Queue& queue = at(q);
    if (queue.jobs.size() >= capacity_) return false;
    const auto before = [](const Job* a, const Job* b) { return a->policy_word < b->policy_word; };
    const auto place = is_ordered(q) ? std::upper_bound(queue.jobs.begin(), queue.jobs.end(), job,
                                                        before)
                                     : queue.jobs.end();
    queue.jobs.insert(place, job);
    ++queue.produced;
    return true;
  }

 private:
  struct Queue {
    std::deque<Job*> jobs;
    uint64_t produced = 0;
    uint64_t consumed = 0;
  };

  static bool is_ordered(QueueRef q) { return P::kQueues[q.declaration].order == Order::kByWord; }

  Queue& at(QueueRef q) {
    RUBATO_CHECK(q.declaration < queues_.size() && q.index < queues_[q.declaration].size());
    return queues_[q.declaration][q.index];
  }

  Job* pop(QueueRef q) {
    Queue& queue = at(q);
    if (queue.jobs.empty()) return nullptr;
    Job* const job = queue.jobs.front();
    queue.jobs.pop_front();
    ++queue.consumed;
    return job;
  }

  void record(const char* verb, QueueRef q) {
    if (!recording_) return;
    verbs_.push_back(std::string(verb) + " " + P::kQueues[q.declaration].name + "[" +
                     std::to_string(q.index) + "]");
  }

  uint32_t workers_;
  uint32_t managers_;
  Plan plan_;
  Prng prng_;
  std::vector<bool> busy_;
  std::vector<uint64_t> hints_;
  std::vector<std::deque<Message>> mailboxes_;
  std::map<uint64_t, WorkerId> steered_;
  Instant now_;
  size_t capacity_ = limits::kSharedCapacity;
  bool recording_ = false;
  std::vector<std::string> verbs_;
  std::vector<std::vector<Queue>> queues_;
  std::array<uint64_t, limits::kTypes> arrived_{};
  std::array<Served, limits::kTypes> served_{};
  std::array<Served, 2> served_as_{};
};

}  // namespace rubato::testing
