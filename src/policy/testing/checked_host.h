// SPDX-License-Identifier: Apache-2.0
//
// CheckedHost<P, Inner>: passes every verb on to another host and writes down what a policy may not
// do: lose or double a job, touch a queue from a context that its Sharing does not allow, use more
// verbs in one hook than is bounded, leave a job behind while others pass. Violations are sentences
// in `violations()`; a clean run has none. Single-threaded; borrows the inner host and the jobs.
//
// The one who runs the hooks tells who calls:  host.sit(CurrentWorker::worker(me));  before each
// hook, and who enters and leaves:  host.admit(job);  host.retire(job);
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "policy/testing/script_host.h"

namespace rubato::testing {

// The caller of the hook.
struct HookContext {
  enum class Kind : uint8_t {
    kWorker,
    kManager,   // manage
    kCentral,   // timer core or dispatcher: adapt, dispatch
    kObserver,  // expired, wherever it runs: may read depths, first words and the plan
  };
  Kind kind = Kind::kObserver;
  uint32_t who = 0;

  static HookContext worker(WorkerId who) { return {Kind::kWorker, who.value}; }
  static HookContext manager(ManagerId who) { return {Kind::kManager, who.value}; }
  static HookContext central() { return {Kind::kCentral, 0}; }
  static HookContext observer() { return {}; }
};

template <Policy P, class Inner>
class CheckedHost {
 public:
  using Plan = typename P::Plan;

  // `patience`: how many other jobs may be taken while one waits in a queue.
  CheckedHost(Inner& inner, uint64_t patience) : inner_(inner), patience_(patience) {
    for (const QueueDeclaration& declaration : P::kQueues) {
      queues_ += queue_count_of(declaration, inner.workers(), inner.managers());
    }
  }

  // The verbs of the contract.
  Instant now() { return inner_.now(); }
  uint32_t workers() { return inner_.workers(); }
  uint32_t random(uint32_t n) {
    count_verb();
    require(n > 0, "random(0)");
    return n > 0 ? inner_.random(n) : 0;
  }
  const Plan& plan() { return inner_.plan(); }
  uint32_t depth(QueueRef q) { return legal(q) ? inner_.depth(q) : 0; }
  uint64_t produced(QueueRef q) { return legal(q) ? inner_.produced(q) : 0; }
  uint64_t consumed(QueueRef q) { return legal(q) ? inner_.consumed(q) : 0; }
  Instant oldest(QueueRef q) {
    if (!legal(q)) return Instant::never();
    const bool aged =
        require(P::kQueues[q.declaration].aged, "oldest of " + name(q) + ", not aged");
    return aged ? inner_.oldest(q) : Instant::never();
  }
  uint64_t first_word(QueueRef q) {
    const bool ordered = legal(q) && require(is_ordered(q), "first_word of " + name(q) +
                                                                ", which has no such order");
    return ordered ? inner_.first_word(q) : kNoWord;
  }
  bool busy(WorkerId worker) {
    count_verb();
    const bool known = require(worker.value < inner_.workers(), "busy of no worker");
    return known && inner_.busy(worker);
  }
  uint64_t arrived(uint32_t type) {
    count_verb();
    const bool known = require(type < limits::kTypes, "arrived of a type beyond the last");
    return known ? inner_.arrived(type) : 0;
  }
  Served served(uint32_t type) {
    count_verb();
    const bool known = require(type < limits::kTypes, "served of a type beyond the last");
    return known ? inner_.served(type) : Served{};
  }
  Served served_as(JobClass job_class) {
    count_verb();
    return inner_.served_as(job_class);
  }
  uint64_t hint(WorkerId worker) {
    count_verb();
    const bool known = require(worker.value < inner_.workers(), "posted of no worker");
    return known ? inner_.hint(worker) : 0;
  }
  bool publish_hint(WorkerId worker, uint64_t seen, uint64_t value) {
    count_verb();
    const bool fine =
        require(worker.value < inner_.workers() && context_.kind == HookContext::Kind::kWorker,
                              "post from the wrong seat or of no worker");
    return fine && inner_.publish_hint(worker, seen, value);
  }
  bool steer(uint64_t flow, WorkerId to) {
    count_verb();
    const bool fine =
        require(to.value < inner_.workers() && context_.kind == HookContext::Kind::kWorker,
                              "steer from the wrong seat or to no worker");
    return fine && inner_.steer(flow, to);
  }
  bool unsteer(uint64_t flow) {
    count_verb();
    return require(context_.kind == HookContext::Kind::kWorker, "unsteer from the wrong seat") &&
           inner_.unsteer(flow);
  }

  bool send(ManagerId to, const Message& message) {
    count_verb();
    if (!require(context_.kind == HookContext::Kind::kManager && to.value < inner_.managers() &&
                     to.value != context_.who && message.from.value == context_.who,
                 "send from the wrong seat or to no other manager") ||
        !require(message.jobs <= limits::kMessageJobs, "a message with too many jobs")) {
      return false;
    }
    for (uint32_t i = 0; i < message.jobs; ++i) {
      if (!require(held(message.job[i]), "a job was sent that is not held")) return false;
    }
    if (!inner_.send(to, message)) return false;
    for (uint32_t i = 0; i < message.jobs; ++i) jobs_[message.job[i]].held = false;
    in_messages_ += message.jobs;
    return true;
  }
  bool receive(ManagerId me, Message& message) {
    count_verb();
    if (!require(context_.kind == HookContext::Kind::kManager && me.value == context_.who,
                 "receive from the wrong seat") ||
        !inner_.receive(me, message)) {
      return false;
    }
    for (uint32_t i = 0; i < message.jobs; ++i) jobs_[message.job[i]].held = true;
    in_messages_ -= message.jobs;
    return true;
  }

  Job* take_tail(QueueRef q) {
    if (!legal(q) || !require(sharing(q) == Sharing::kManaged && may_take(q),
                              "take_tail from " + name(q) + " from the wrong seat")) {
      return nullptr;
    }
    Job* const job = inner_.take_tail(q);
    if (job != nullptr) granted(job, q);
    return job;
  }

  Job* take(QueueRef q) {
    if (!legal(q) || !require(may_take(q), "take from " + name(q) + " from the wrong seat")) {
      return nullptr;
    }
    Job* const job = inner_.take(q);
    if (job != nullptr) granted(job, q);
    return job;
  }

  bool put(QueueRef q, Job* job) {
    if (!legal(q) || !require(may_put(q), "put into " + name(q) + " from the wrong seat")) {
      return false;
    }
    if (!require(jobs_.contains(job) && jobs_[job].held, "put of a job that is not held")) {
      return false;
    }
    if (!inner_.put(q, job)) return false;
    jobs_[job] = {.held = false, .queue = q, .grants_before = grants_};
    return true;
  }

  Job* steal(QueueRef victim, QueueRef into, uint32_t max) {
    if (!legal(victim) || !legal(into)) return nullptr;
    const std::string from = name(victim) + " into " + name(into);
    if (!require(may_steal(victim) && may_put(into), "steal from " + from + ": wrong seat") ||
        !require(max >= 1 && max <= limits::kStealMax, "steal of " + std::to_string(max)) ||
        !require(!(victim == into) && !is_ordered(into), "steal from " + from) ||
        !require(max <= inner_.room(into) + 1, "steal from " + from + ", which has no room")) {
      return nullptr;
    }
    const size_t landed_before = inner_.waiting(into).size();
    Job* const first = inner_.steal(victim, into, max);
    const std::deque<Job*>& landed = inner_.waiting(into);
    for (size_t i = landed_before; i < landed.size(); ++i) jobs_[landed[i]].queue = into;
    if (first != nullptr) granted(first, victim);
    return first;
  }

  // For the one who runs the hooks.
  void call_as(HookContext context) {
    context_ = context;
    verbs_ = 0;
  }
  void admit(Job* job) {
    require(!jobs_.contains(job), "a job was admitted twice");
    jobs_[job] = {};
  }
  void retire(Job* job) {
    require(jobs_.contains(job) && jobs_[job].held, "a job left that was not held");
    jobs_.erase(job);
  }
  bool held(Job* job) const { return jobs_.contains(job) && jobs_.at(job).held; }
  void complain(const std::string& what) { violations_.push_back(what); }

  // For the test.
  const std::deque<Job*>& waiting(QueueRef q) { return inner_.waiting(q); }
  const std::vector<std::string>& violations() const { return violations_; }
  size_t inside() const { return jobs_.size(); }  // admitted and not yet retired
  uint64_t in_messages() const { return in_messages_; }  // jobs on their way between managers
  uint64_t longest_passed_over() const { return longest_passed_over_; }

 private:
  struct Place {
    bool held = true;  // by a worker or the context; else in `queue`
    QueueRef queue;
    uint64_t grants_before = 0;
  };

  static bool is_ordered(QueueRef q) { return P::kQueues[q.declaration].order == Order::kByWord; }
  Sharing sharing(QueueRef q) const { return P::kQueues[q.declaration].sharing; }
  bool owns(QueueRef q) const {
    return context_.kind == HookContext::Kind::kWorker && q.index == context_.who;
  }
  bool acts() const { return context_.kind != HookContext::Kind::kObserver; }
  bool open_to_all(QueueRef q) const {
    return sharing(q) == Sharing::kShared || sharing(q) == Sharing::kManaged;
  }
  bool may_put(QueueRef q) const { return open_to_all(q) ? acts() : owns(q); }
  bool may_steal(QueueRef q) const {
    return (sharing(q) == Sharing::kStealable || sharing(q) == Sharing::kShared) && acts();
  }
  bool may_take(QueueRef q) const {
    const bool by_worker = context_.kind == HookContext::Kind::kWorker;
    if (kClaimsPushes<P> && by_worker && !owns(q)) return false;
    if (sharing(q) == Sharing::kOwner) return owns(q);
    if (sharing(q) == Sharing::kManaged) {
      return context_.kind == HookContext::Kind::kManager && q.index == context_.who;
    }
    return sharing(q) == Sharing::kShared ? acts() : context_.kind == HookContext::Kind::kWorker;
  }

  std::string name(QueueRef q) const {
    return std::string(P::kQueues[q.declaration].name) + "[" + std::to_string(q.index) + "]";
  }

  bool require(bool condition, const std::string& what) {
    if (!condition) complain(what);
    return condition;
  }

  // Bounded means: at most a few looks at every queue and every worker.
  void count_verb() {
    const uint64_t bound = 16 + 4 * (uint64_t{queues_} + inner_.workers() + limits::kTypes);
    if (++verbs_ != bound + 1) return;
    complain("a hook used more than " + std::to_string(bound) + " verbs");
  }

  bool legal(QueueRef q) {
    count_verb();
    if (q.declaration >= P::kQueues.size()) return require(false, "a queue that was not declared");
    const uint32_t queue_count =
        queue_count_of(P::kQueues[q.declaration], inner_.workers(), inner_.managers());
    return require(q.index < queue_count, "no lane " + name(q));
  }

  void granted(Job* job, QueueRef from) {
    if (!require(jobs_.contains(job), "a job came out of " + name(from) + " that never went in")) {
      return;
    }
    Place& place = jobs_[job];
    require(!place.held && place.queue == from, "a job was doubled at " + name(from));
    const uint64_t passed_over = grants_ - place.grants_before;
    longest_passed_over_ = std::max(longest_passed_over_, passed_over);
    require(passed_over <= patience_, "a job in " + name(from) + " starved");
    place.held = true;
    ++grants_;
  }

  Inner& inner_;
  uint64_t patience_;
  uint32_t queues_ = 0;
  HookContext context_;
  uint64_t verbs_ = 0;
  uint64_t grants_ = 0;
  uint64_t in_messages_ = 0;
  uint64_t longest_passed_over_ = 0;
  std::unordered_map<Job*, Place> jobs_;
  std::vector<std::string> violations_;
};

}  // namespace rubato::testing
