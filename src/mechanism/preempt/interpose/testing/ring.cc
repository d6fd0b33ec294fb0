// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/interpose/testing/ring.h"

#include <utility>

#include "base/check.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato::testing {
namespace {

Ring* g_ring = nullptr;

}  // namespace

Ring::Ring() {
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
  member->tls = TlsBlock::make();
  RUBATO_CHECK(member->tls != nullptr);
  member->pointer = member->tls->pointer();
  context_make(member->context, member->stack->low, member->stack->size_bytes, &Ring::entry,
               member.get());
  members_.push_back(std::move(member));
}

void Ring::run() {
  running_ = members_.size() - 1;
  switch_to(thread_, next());
}

void Ring::entry(void* argument) {
  auto& self = *static_cast<Member*>(argument);
  interposers_mark_thread(ThreadKind::kOwnsTls);
  self.body();
  RUBATO_CHECK(preempt_disable_depth() == 0);
  self.ended = true;
  interposers_mark_thread(ThreadKind::kPlain);
  Ring& ring = *g_ring;
  ring.switch_to(self, ring.next());
  check_failed(__FILE__, __LINE__, "a fiber that had ended was resumed");
}

// The next fiber that has not ended; the thread itself when all have.
Ring::Member& Ring::next() {
  for (size_t i = 1; i <= members_.size(); ++i) {
    const size_t candidate = (running_ + i) % members_.size();
    if (members_[candidate]->ended) continue;
    running_ = candidate;
    return *members_[candidate];
  }
  return thread_;
}

// Not inlined: everything found through the thread pointer belongs to another fiber afterwards.
[[gnu::noinline]] void Ring::switch_to(Member& from, Member& to) {
  if (&from == &to) return;
  set_thread_pointer(to.pointer);
  rubato_context_switch(&from.context, &to.context);
}

void Ring::yield() {
  Ring& ring = *g_ring;
  Member& from = *ring.members_[ring.running_];
  ring.switch_to(from, ring.next());
}

bool Ring::yield_for_lock() {
  ++g_ring->lock_yields_;
  yield();
  return true;
}

}  // namespace rubato::testing
