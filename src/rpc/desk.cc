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
    : options_(options), control_(options.credits, options.workers) {
  waiting_.before = waiting_.after = &waiting_;
}

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
  ++counts_.opened;
  member.open_ = true;
  return control_.open(member.books_, demand, now);
}

void CreditDesk::close(CreditMember& member) {
  const Lock lock(mutex_);
  if (!member.open_) return;
  member.open_ = false;
  control_.close(member.books_);
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
  if (arrival != overload::Arrival::kServe) return arrival;
  waiting.since = since;
  enqueue(waiting);
  return arrival;
}

// Nearly in the order of `since`: what several workers take in comes in nearly that order.
void CreditDesk::enqueue(Waiting& waiting) {
  Waiting* before = waiting_.before;
  for (int i = 0; i < kOvertakesMost && before != &waiting_ && before->since > waiting.since; ++i) {
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
  if (!overload::Aqm{options_.credits.drop_delay}.serves(now - waiting.since)) return false;
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
  const Waiting* const oldest = waiting_.after;
  const Nanos unstarted = oldest == &waiting_ ? Nanos() : now - oldest->since;
  return std::max(unstarted, delay_among_preempted());
}

// What is underway beyond one for each worker has been preempted. Such requests take turns, so each
// ends when the others have had about as much as it has. Late by their own measure (decision 11):
// what is returned is in proportion to the target that all share.
Nanos CreditDesk::delay_among_preempted() const {
  const int64_t preempted = underway_ - options_.workers;
  if (preempted <= 0 || long_service_ns_ == 0) return Nanos();
  const int64_t turns_ns = long_service_ns_ * preempted / options_.workers;
  const Nanos target = options_.credits.target_delay;
  const Nanos own_target = std::max(target, Nanos(long_service_ns_ * kLongTarget));
  const double late = static_cast<double>(turns_ns) / static_cast<double>(own_target.count());
  return Nanos(static_cast<int64_t>(late * static_cast<double>(target.count())));
}

Nanos CreditDesk::delay(Instant now) const {
  const Lock lock(mutex_);
  return delay_now(now);
}

Nanos CreditDesk::retry_after(Instant now) const {
  return std::max(delay(now), options_.credits.target_delay);
}

}  // namespace rubato::rpc
