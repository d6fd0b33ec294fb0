// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/interpose/testing/ring.h"

#include <cxxabi.h>

#include <utility>

#include "base/check.h"
#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/section.h"

namespace rubato::testing {
namespace {

Ring* g_ring = nullptr;

[[gnu::noinline]] ExceptionState& exceptions() {
  asm volatile("");
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

}  // namespace

Ring::Ring(ThreadKind kind) : kind_(kind) {
  RUBATO_CHECK(g_ring == nullptr);
  g_ring = this;
  const Status attached = interposers_attach();
  RUBATO_CHECK(attached.ok());
  set_yield_for_lock(&Ring::yield_for_lock);
  thread_.pointer = thread_pointer();
}

Ring::~Ring() {
  set_yield_for_lock(nullptr);
  for (auto& member : members_) stacks_.give(member->stack);
  g_ring = nullptr;
}

void Ring::add(std::function<void()> body) {
  auto member = std::make_unique<Member>();
  member->body = std::move(body);
  member->stack = stacks_.take();
  RUBATO_CHECK(member->stack != nullptr);
  member->pointer = thread_.pointer;
  if (kind_ == ThreadKind::kIsIdentity) {
    member->identity = Identity::make();
    RUBATO_CHECK(member->identity != nullptr);
    member->pointer = member->identity->pointer();
  }
  context_make(member->context, member->stack->low, member->stack->size_bytes, &Ring::entry,
               member.get());
  members_.push_back(std::move(member));
}

void Ring::run() {
  running_ = members_.size() - 1;
  Member& first = next();
  if (kind_ == ThreadKind::kSharesIdentity) interposers_mark_thread(kind_);
  switch_to(thread_, first);
  interposers_mark_thread(ThreadKind::kPlain);
}

void Ring::entry(void* argument) {
  auto& self = *static_cast<Member*>(argument);
  if (g_ring->kind_ == ThreadKind::kIsIdentity) interposers_mark_thread(ThreadKind::kIsIdentity);
  self.body();
  RUBATO_CHECK(section_depth() == 0);
  self.ended = true;
  if (g_ring->kind_ == ThreadKind::kIsIdentity) interposers_mark_thread(ThreadKind::kPlain);
  Ring& ring = *g_ring;
  ring.switch_to(self, ring.next());
  check_failed(__FILE__, __LINE__, "a fiber that had ended was resumed");
}

// The next that has not ended; the thread itself when all have.
Ring::Member& Ring::next() {
  for (size_t i = 1; i <= members_.size(); ++i) {
    const size_t candidate = (running_ + i) % members_.size();
    if (members_[candidate]->ended) continue;
    running_ = candidate;
    return *members_[candidate];
  }
  return thread_;
}

// Not inlined: everything that is found through the thread pointer is another's afterwards.
[[gnu::noinline]] void Ring::switch_to(Member& from, Member& to) {
  if (&from == &to) return;
  if (kind_ == ThreadKind::kIsIdentity) {
    set_thread_pointer(to.pointer);
  } else {
    from.depth = section_exchange_depth(to.depth);
    from.exceptions = std::exchange(exceptions(), to.exceptions);
  }
  rubato_context_switch(&from.context, &to.context);
}

// By way of the interposers, which take along what is theirs.
void Ring::yield() {
  --g_ring->lock_yields_;
  interpose::Patience().let_others_run();
}

bool Ring::yield_for_lock() {
  Ring& ring = *g_ring;
  ++ring.lock_yields_;
  Member& from = *ring.members_[ring.running_];
  ring.switch_to(from, ring.next());
  return true;
}

}  // namespace rubato::testing
