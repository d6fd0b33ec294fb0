// SPDX-License-Identifier: Apache-2.0
#include "rpc/desk.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"
#include "mechanism/preempt/section.h"

namespace rubato::rpc {

// The section comes first and goes last.
class CreditDesk::Lock {
 public:
  explicit Lock(std::mutex& mutex) : lock_(mutex) {}

 private:
  const Section stay_;
  const std::lock_guard<std::mutex> lock_;
};

CreditDesk::CreditDesk(const DeskOptions& options)
    : options_(options), control_(options.credits, options.workers) {}

CreditDesk::~CreditDesk() { detach(); }

void CreditDesk::attach(Datapath& datapath) {
  datapath_.store(&datapath, std::memory_order_release);
  thread_ = std::thread([this] { run(); });
}

void CreditDesk::detach() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(thread_mutex_);
    stopping_ = true;
  }
  thread_wakes_.notify_all();
  thread_.join();
  datapath_.store(nullptr, std::memory_order_release);
}

void CreditDesk::run() {
  std::unique_lock lock(thread_mutex_);
  while (!stopping_) {
    lock.unlock();
    const Nanos pause = tick(now()) ? kTick : kQuietTick;
    lock.lock();
    thread_wakes_.wait_for(lock, std::chrono::nanoseconds(pause.count()),
                           [this] { return stopping_; });
  }
}

int64_t CreditDesk::open(CreditMember& member, uint32_t demand, Instant now) {
  const Lock lock(mutex_);
  if (pool().sessions() >= options_.max_sessions) {
    ++counts_.refused;
    return -1;
  }
  if (!may_come_from(member.address_)) {
    ++counts_.refused_of_address;
    return -1;
  }
  ++counts_.opened;
  member.open_ = true;
  return control_.open(member.books_, demand, now);
}

bool CreditDesk::may_come_from(const std::string& address) {
  if (options_.sessions_per_address == 0) return true;
  uint32_t& sessions = of_address_[address];
  if (sessions >= options_.sessions_per_address) return false;
  ++sessions;
  return true;
}

void CreditDesk::left(const std::string& address) {
  const auto at = of_address_.find(address);
  if (at != of_address_.end() && --at->second == 0) of_address_.erase(at);
}

void CreditDesk::close(CreditMember& member) {
  const Lock lock(mutex_);
  if (!member.open_) return;
  member.open_ = false;
  control_.close(member.books_);
  left(member.address_);
  leave_nudges(member);
}

void CreditDesk::note_fault() {
  const Lock lock(mutex_);
  ++counts_.faults;
}

overload::Arrival CreditDesk::arrived(CreditMember& member, Waiting& waiting, uint32_t demand,
                                      Instant since, Instant now) {
  const Lock lock(mutex_);
  const overload::Arrival arrival = control_.arrived(member.books_, demand, delay_now(now));
  waiting.is_long = false;
  waiting.judged = arrival != overload::Arrival::kServe;
  if (waiting.judged) return arrival;
  waiting.since = since;
  enqueue(waiting);
  return arrival;
}

void CreditDesk::classify(Waiting& waiting, bool is_long) {
  if (waiting.is_long == is_long) return;
  const Lock lock(mutex_);
  const bool listed = waiting.listed;
  leave_queue(waiting);
  waiting.is_long = is_long;
  if (listed) enqueue(waiting);
}

bool CreditDesk::apart(const Waiting& waiting) const {
  return waiting.is_long && options_.target_delay_long > Nanos();
}

// Nearly in the order of `since`: what several workers take in comes in nearly that order.
void CreditDesk::enqueue(Waiting& waiting) {
  Waiting* const ends = &waiting_[apart(waiting) ? 1 : 0];
  Waiting* before = ends->before;
  for (int i = 0; i < kOvertakesMost && before != ends && before->since > waiting.since; ++i) {
    before = before->before;
  }
  waiting.before = before;
  waiting.after = before->after;
  before->after = waiting.after->before = &waiting;
  waiting.listed = true;
}

void CreditDesk::leave_queue(Waiting& waiting) {
  if (!waiting.listed) return;
  waiting.before->after = waiting.after;
  waiting.after->before = waiting.before;
  waiting.listed = false;
}

// The delay of the others has shrunk with this one's start, so its own is what is judged.
bool CreditDesk::started(Waiting& waiting, Instant now) {
  const Lock lock(mutex_);
  leave_queue(waiting);
  const Nanos drop = apart(waiting) ? options_.target_delay_long * 2 : options_.credits.drop_delay;
  if (!overload::Aqm{drop}.serves(now - waiting.since)) {
    waiting.judged = true;
    ++counts_.late;
    return false;
  }
  waiting.underway = true;
  ++underway_;
  return true;
}

void CreditDesk::leave(Waiting& waiting) {
  leave_queue(waiting);
  underway_ -= std::exchange(waiting.underway, false) ? 1 : 0;
}

int64_t CreditDesk::replied(CreditMember& member, Waiting& waiting, Nanos in_slices, Instant now) {
  int64_t credit = 0;
  {
    const Lock lock(mutex_);
    leave(waiting);
    if (in_slices > Nanos()) {
      const int64_t change = in_slices.count() - long_service_ns_;
      long_service_ns_ += long_service_ns_ == 0 ? change : change / kEmaWeight;
    }
    ++counts_.served;
    update(now);
    credit = control_.replied(member.books_, now);
    member.told_.store(-1, std::memory_order_relaxed);
  }
  nudge(kNudgesPerReply);
  return credit;
}

int64_t CreditDesk::dropped(CreditMember& member, Waiting& waiting, Reason reason, Instant now) {
  const Lock lock(mutex_);
  leave(waiting);
  ++counts_.rejected[static_cast<size_t>(reason)];
  if (waiting.judged) ++counts_.judged[static_cast<size_t>(reason)][waiting.is_long ? 1 : 0];
  update(now);
  member.told_.store(-1, std::memory_order_relaxed);
  return control_.dropped(member.books_, now);
}

void CreditDesk::withdraw(Waiting& waiting) {
  const Lock lock(mutex_);
  leave(waiting);
}

int64_t CreditDesk::demanded(CreditMember& member, uint32_t demand, Instant now) {
  const Lock lock(mutex_);
  update(now);
  control_.demanded(member.books_, demand, now);
  member.told_.store(-1, std::memory_order_relaxed);
  return member.books_.advertised;
}

int64_t CreditDesk::told_last(CreditMember& member) {
  const Lock lock(mutex_);
  return member.books_.advertised;
}

void CreditDesk::update(Instant now) {
  control_.update(now, delay_now(now), [this](overload::CreditSession& session, int64_t credit) {
    tell(static_cast<CreditMember::Books&>(session).member, credit);
  });
}

void CreditDesk::tell(CreditMember& member, int64_t credit) {
  member.told_.store(credit, std::memory_order_relaxed);
  if (member.to_nudge_) return;
  member.to_nudge_ = true;
  member.before_to_nudge_ = last_to_nudge_;
  member.after_to_nudge_ = nullptr;
  (last_to_nudge_ != nullptr ? last_to_nudge_->after_to_nudge_ : first_to_nudge_) = &member;
  last_to_nudge_ = &member;
  any_to_nudge_.store(true, std::memory_order_relaxed);
}

void CreditDesk::leave_nudges(CreditMember& m) {
  if (!m.to_nudge_) return;
  (m.before_to_nudge_ != nullptr ? m.before_to_nudge_->after_to_nudge_ : first_to_nudge_) =
      m.after_to_nudge_;
  (m.after_to_nudge_ != nullptr ? m.after_to_nudge_->before_to_nudge_ : last_to_nudge_) =
      m.before_to_nudge_;
  m.to_nudge_ = false;
}

// A flow that closes meanwhile is not found.
void CreditDesk::nudge(uint32_t most) {
  Datapath* const datapath = datapath_.load(std::memory_order_acquire);
  if (datapath == nullptr || !any_to_nudge_.load(std::memory_order_relaxed)) return;
  const Section stay;
  for (; most > 0; --most) {
    uint64_t flow = 0;
    {
      const Lock lock(mutex_);
      CreditMember* const member = first_to_nudge_;
      any_to_nudge_.store(member != nullptr, std::memory_order_relaxed);
      if (member == nullptr) return;
      leave_nudges(*member);
      ++counts_.told;
      flow = member->flow_;
    }
    datapath->nudge(flow);
  }
}

bool CreditDesk::tick(Instant now) {
  {
    const Lock lock(mutex_);
    update(now);
  }
  nudge(kNudgesPerTick);
  return any_to_nudge_.load(std::memory_order_relaxed) || pool().drained() > 0 ||
         pool().pending() > 0;
}

Nanos CreditDesk::delay_now(Instant now) const {
  return std::max({unstarted(false, now), delay_among_preempted(),
                   in_proportion(unstarted(true, now), options_.target_delay_long)});
}

Nanos CreditDesk::unstarted(bool is_long, Instant now) const {
  const Waiting& ends = waiting_[is_long ? 1 : 0];
  return ends.after == &ends ? Nanos() : now - ends.after->since;
}

// Late by a target of its own (decision 11): the same part of the one that all share.
Nanos CreditDesk::in_proportion(Nanos wait, Nanos own_target) const {
  if (wait == Nanos()) return wait;
  const Nanos target = options_.credits.target_delay;
  const double late = static_cast<double>(wait.count()) / static_cast<double>(own_target.count());
  return Nanos(static_cast<int64_t>(late * static_cast<double>(target.count())));
}

// What is underway beyond one for each worker has been preempted. Such requests take turns, so each
// ends when the others have had about as much as it has.
Nanos CreditDesk::delay_among_preempted() const {
  const int64_t preempted = underway_ - options_.workers;
  if (preempted <= 0 || long_service_ns_ == 0) return Nanos();
  const Nanos turns(long_service_ns_ * preempted / options_.workers);
  const Nanos usual = std::max(options_.credits.target_delay,
                               Nanos(long_service_ns_ * kLongTarget));
  const bool given = options_.target_delay_long > Nanos();
  return in_proportion(turns, given ? options_.target_delay_long : usual);
}

Nanos CreditDesk::delay(Instant now) const {
  const Lock lock(mutex_);
  return delay_now(now);
}

Nanos CreditDesk::retry_after(Instant now) const {
  return std::max(delay(now), options_.credits.target_delay);
}

}  // namespace rubato::rpc
