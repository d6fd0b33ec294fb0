// SPDX-License-Identifier: Apache-2.0
#include "virtual/scheduler.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace rubato::virt {
namespace {

constexpr size_t kStackBytes = size_t{256} * 1024;
constexpr uint32_t kThreadsMax = 512;
// Of the clocks, so that no instant of the world is zero, which means "not yet" in places.
constexpr Instant kBegin = Instant() + Nanos::seconds(1000);

[[gnu::tls_model("initial-exec")]] thread_local constinit Scheduler* t_here = nullptr;

// The thread is outside of the world for as long as this lives: what it calls is not virtual.
class Outside {
 public:
  Outside() : here_(std::exchange(t_here, nullptr)) {}
  ~Outside() { t_here = here_; }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  Scheduler* const here_;
};

[[gnu::noinline]] void set_here(Scheduler* scheduler) {
  asm volatile("");
  t_here = scheduler;
}

// Blocks of threads that have ended, for the next ones: making one makes a thread of the system.
std::vector<std::unique_ptr<TlsBlock>>& spare_blocks() {
  static std::vector<std::unique_ptr<TlsBlock>> blocks;
  return blocks;
}

std::unique_ptr<TlsBlock> take_block() {
  auto& spare = spare_blocks();
  if (spare.empty()) return TlsBlock::make();
  std::unique_ptr<TlsBlock> block = std::move(spare.back());
  spare.pop_back();
  return block;
}

}  // namespace

[[gnu::noinline]] Scheduler* Scheduler::here() {
  asm volatile("");
  return t_here;
}

Scheduler::Scheduler(const WorldOptions& options)
    : options_(options), prng_(options.seed), stacks_(kStackBytes, kThreadsMax) {
  auto first = std::make_unique<VirtualThread>();
  first->thread_pointer = rubato::thread_pointer();
  first->clock = kBegin;
  threads_.push_back(std::move(first));
  next_.push_back(kBegin);
  if (options.stall_one_in > 0) until_stall_ = 1 + prng_.below(2 * options.stall_one_in);
}

Scheduler::~Scheduler() {
  for (auto& thread : threads_) {
    if (thread->tls != nullptr) spare_blocks().push_back(std::move(thread->tls));
  }
}

WorldReport Scheduler::run(const std::function<void()>& body) {
  RUBATO_CHECK(here() == nullptr);
  set_here(this);
  body();
  for (size_t i = 1; i < threads_.size(); ++i) {
    while (!threads_[i]->ended) wait(threads_[i].get());
  }
  set_here(nullptr);
  report_.ended = running().clock;
  report_.accesses = accesses_;
  report_.threads = threads_.size();
  return report_;
}

// ---- Threads --------------------------------------------------------------------------------

VirtualThread* Scheduler::create(void* (*start)(void*), void* argument) {
  call();
  auto made = std::make_unique<VirtualThread>();
  {
    const Outside outside;
    made->stack = threads_.size() < kThreadsMax ? stacks_.take() : nullptr;
    if (made->stack == nullptr) return nullptr;
    made->tls = take_block();
    if (made->tls == nullptr) return nullptr;
  }
  made->thread_pointer = made->tls->pointer();
  made->start = start;
  made->argument = argument;
  made->number = static_cast<uint32_t>(threads_.size());
  made->clock = running().clock;
  context_make(made->context, made->stack->low, made->stack->size_bytes, &entry, this);
  threads_.push_back(std::move(made));
  next_.push_back(Instant::never());
  VirtualThread& thread = *threads_.back();
  make_ready(thread, running().clock + draw_price(options_.wake_up));
  return &thread;
}

void Scheduler::entry(void* argument) {
  auto* self = static_cast<Scheduler*>(argument);
  set_here(self);
  VirtualThread& me = self->running();
  self->end(me.start(me.argument));
}

void Scheduler::end(void* result) {
  VirtualThread& me = running();
  me.result = result;
  me.ended = true;
  wake(&me, UINT32_MAX);
  set_here(nullptr);  // its block is lent again
  pass_on(Instant::never());
  check_failed(__FILE__, __LINE__, "a thread that had ended went on");
}

VirtualThread* Scheduler::find(uintptr_t thread_pointer) {
  // The last one: blocks are used again.
  for (size_t i = threads_.size(); i-- > 0;) {
    if (threads_[i]->thread_pointer == thread_pointer) return threads_[i].get();
  }
  return nullptr;
}

void* Scheduler::join(VirtualThread& thread) {
  RUBATO_CHECK(!thread.joined);
  call();
  while (!thread.ended) wait(&thread);
  thread.joined = true;
  return thread.result;
}

// ---- Waiting --------------------------------------------------------------------------------

bool Scheduler::wait(const void* what, Instant deadline) {
  VirtualThread& me = running();
  me.waits_for = what;
  me.woken = false;
  const uint32_t one_in = options_.spurious_wake_up_one_in;
  if (one_in > 0 && prng_.below(one_in) == 0) {
    deadline = std::min(deadline, me.clock + draw_price(options_.late_most));
  }
  pass_on(std::max(deadline, me.clock));
  me.waits_for = nullptr;
  return me.woken;
}

uint32_t Scheduler::wake(const void* what, uint32_t most) {
  const auto threads = static_cast<uint32_t>(threads_.size());
  const uint32_t first = prng_.below(threads);
  uint32_t woken = 0;
  for (uint32_t i = 0; i < threads && woken < most; ++i) {
    VirtualThread& thread = *threads_[(first + i) % threads];
    if (thread.waits_for != what) continue;
    thread.waits_for = nullptr;
    thread.woken = true;
    Nanos after = draw_price(options_.wake_up);
    const uint32_t one_in = options_.late_wake_up_one_in;
    if (one_in > 0 && prng_.below(one_in) == 0) after += draw_price(options_.late_most);
    make_ready(thread, running().clock + after);
    ++woken;
  }
  return woken;
}

void Scheduler::sleep_until(Instant due) {
  call();
  pass_on(std::max(due, running().clock));
}

void Scheduler::yield() {
  call();
  pass_on(running().clock);
}

Instant Scheduler::read_clock() {
  ++accesses_;
  advance(draw_price(options_.clock_read));
  return running().clock;
}

// ---- Who goes on ----------------------------------------------------------------------------

void Scheduler::make_ready(VirtualThread& thread, Instant at) {
  next_[thread.number] = std::max(at, thread.clock);
  others_ = std::min(others_, next_[thread.number]);
}

// The length is drawn so that short stalls and long ones are about as many.
void Scheduler::stall() {
  until_stall_ = 1 + prng_.below(2 * options_.stall_one_in);
  ++report_.stalls;
  const double least = std::log(static_cast<double>(options_.stall_least.count()));
  const double most = std::log(static_cast<double>(options_.stall_most.count()));
  const double length = std::exp(least + (most - least) * prng_.uniform());
  VirtualThread& me = running();
  me.clock = me.clock + Nanos(static_cast<int64_t>(length));
}

void Scheduler::pass_on(Instant next) {
  next_[running_] = next;
  uint32_t first = 0;
  Instant second = Instant::never();
  for (uint32_t i = 1; i < next_.size(); ++i) {
    if (next_[i] < next_[first]) {
      second = next_[first];
      first = i;
    } else {
      second = std::min(second, next_[i]);
    }
  }
  if (next_[first] == Instant::never()) fail("all threads wait for ever");
  if (next_[first] - kBegin > options_.end) fail("the program does not end");
  others_ = second;
  if (first != running_) switch_to(first);
  VirtualThread& me = running();
  me.clock = std::max(me.clock, next_[me.number]);
}

// Returns when this thread goes on.
[[gnu::noinline]] void Scheduler::switch_to(uint32_t number) {
  VirtualThread& from = running();
  VirtualThread& to = *threads_[number];
  running_ = number;
  ++report_.switches;
  report_.digest = (report_.digest + number) * 0x9e3779b97f4a7c15u +
                   static_cast<uint64_t>(next_[number].ns());
  set_thread_pointer(to.thread_pointer);
  rubato_context_switch(&from.context, &to.context);
}

void Scheduler::fail(const char* what) const {
  std::fprintf(stderr, "virtual world, seed %" PRIu64 ": %s, %" PRId64 " us after its beginning\n",
               options_.seed, what, (threads_[running_]->clock - kBegin).count() / 1000);
  for (const auto& thread : threads_) {
    if (thread->ended) continue;
    std::fprintf(stderr, "  thread %u at %" PRId64 " us: %s\n", thread->number,
                 (thread->clock - kBegin).count() / 1000,
                 thread->waits_for != nullptr ? "waits" : "runs or sleeps");
  }
  std::abort();
}

}  // namespace rubato::virt
