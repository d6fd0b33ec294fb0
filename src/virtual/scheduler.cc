// SPDX-License-Identifier: Apache-2.0
#include "virtual/scheduler.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/check.h"

extern "C" const char __executable_start;  // the linker's

namespace rubato::virt {
namespace {

constexpr size_t kStackBytes = size_t{256} * 1024;
constexpr uint32_t kYieldsMax = 1'000'000;  // of a spin lock that is never free: over a second
// Of the clocks, so that no instant of the world is zero, which means "not yet" in places.
constexpr Instant kBegin = Instant() + Nanos::seconds(1000);

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

Outside::Outside() : here_(Scheduler::set_here(nullptr)) {}
Outside::~Outside() { Scheduler::set_here(here_); }

// Not inlined: the thread may have changed.
[[gnu::noinline]] Scheduler* Scheduler::set_here(Scheduler* scheduler) {
  return std::exchange(here_, scheduler);
}

Scheduler::Scheduler(const WorldOptions& options)
    : options_(options),
      same_(options.in_step ? Nanos(1) : Nanos()),
      ahead_(std::max(same_, options.lead)),
      accesses_matter_(options.stall_one_in > 0 || options.write_stall_one_in > 0 ||
                       options.stall_places_one_in > 0 || options.count_lines),
      prng_(options.seed),
      stacks_(kStackBytes, Agenda::kThreadsMax),
      agenda_(options.in_step),
      network_(*this, options) {
  auto first = std::make_unique<VirtualThread>();
  first->thread_pointer = rubato::thread_pointer();
  first->clock = first->runs_since = kBegin;
  first->away = kBegin - Instant();
  first->free = options.first_is_free;
  recorder_.begin();
  recorder_.note_thread(0);
  me_ = first.get();
  threads_.push_back(std::move(first));
  agenda_.add();
  const int64_t access = options.access.count();
  for (size_t die = 0; die < access_prices_.size(); ++die) {
    const int64_t drawn = static_cast<int64_t>(die) * (access + kNano) >> 8;
    access_prices_[die] = Nanos((access / 2 + drawn) / kNano);
  }
  sees_plain_accesses_ = options.plain_access > Nanos() || options.plain_stall_one_in > 0 ||
                         options.count_lines;
  if (options.stall_one_in > 0) until_stall_ = 1 + prng_.below(2 * options.stall_one_in);
  if (options.write_stall_one_in > 0) {
    until_write_stall_ = 1 + prng_.below(2 * options.write_stall_one_in);
  }
  if (options.plain_stall_one_in > 0) {
    until_plain_stall_ = 1 + prng_.below(2 * options.plain_stall_one_in);
  }
  if (options.clock_jump_one_in > 0) until_jump_ = 1 + prng_.below(2 * options.clock_jump_one_in);
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
  record_run();
  report_.ended = running().clock;
  report_.counts = counts();
  report_.threads = threads_.size();
  return report_;
}

// ---- Threads --------------------------------------------------------------------------------

VirtualThread* Scheduler::create(void* (*start)(void*), void* argument) {
  call();
  auto made = std::make_unique<VirtualThread>();
  {
    const Outside outside;
    made->stack = threads_.size() < Agenda::kThreadsMax ? stacks_.take() : nullptr;
    if (made->stack == nullptr) return nullptr;
    made->tls = take_block();
    if (made->tls == nullptr) return nullptr;
    made->thread_pointer = made->tls->pointer();
    context_make(made->context, made->stack->low, made->stack->size_bytes, &entry, this);
  }
  made->start = start;
  made->argument = argument;
  made->number = static_cast<uint32_t>(threads_.size());
  made->clock = made->runs_since = running().clock;
  made->away = made->clock - Instant();
  recorder_.note_thread(made->number);
  threads_.push_back(std::move(made));
  agenda_.add();
  VirtualThread& thread = *threads_.back();
  set_next(thread, running().clock + draw_price(options_.wake_up));
  return &thread;
}

void Scheduler::entry(void* argument) {
  auto* self = static_cast<Scheduler*>(argument);
  self->switching_ = false;
  set_here(self);
  VirtualThread& me = self->running();
  me.runs_since = me.clock;
  self->end(me.start(me.argument));
}

void Scheduler::end(void* result) {
  VirtualThread& me = running();
  take_turn();
  me.result = result;
  me.ended = true;
  record_run();
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
  record_run();
  me.yields = 0;
  me.waits_for = what;
  me.waits_since = me.clock;
  me.woken = false;
  const uint32_t one_in = options_.spurious_wake_up_one_in;
  if (one_in > 0 && prng_.below(one_in) == 0) {
    deadline = std::min(deadline, me.clock + draw_price(options_.late_most));
  }
  waiting_.push_back(&me);
  pass_on(std::max(deadline, me.clock));
  if (!me.woken) std::erase(waiting_, &me);
  me.waits_for = nullptr;
  const char* const what_it_did = me.woken ? "waits, woken" : "waits, not woken";
  recorder_.span(me.number, what_it_did, me.runs_since, me.clock);
  me.runs_since = me.clock;
  return me.woken;
}

uint32_t Scheduler::wake(const void* what, uint32_t most) {
  const auto waits = [what](const VirtualThread* thread) { return thread->waits_for == what; };
  if (std::none_of(waiting_.begin(), waiting_.end(), waits)) return 0;
  const size_t first = prng_.below(static_cast<uint32_t>(waiting_.size()));
  uint32_t woken = 0;
  for (size_t i = 0; i < waiting_.size() && woken < most; ++i) {
    VirtualThread& thread = *waiting_[(first + i) % waiting_.size()];
    if (!waits(&thread)) continue;
    wake(thread);
    ++woken;
  }
  std::erase_if(waiting_, [](const VirtualThread* thread) { return thread->woken; });
  return woken;
}

void Scheduler::wake(VirtualThread& thread) {
  const Instant at = running().clock;
  thread.waits_for = nullptr;
  thread.woken = true;
  set_next(thread, at + draw_wake_up(thread));
  if (thread.number != 0) ++counts_.wake_ups;
  recorder_.mark(running_, "wakes", at);
  recorder_.mark(thread.number, "is woken", at);
}

void Scheduler::sleep_until(Instant due) {
  call();
  record_run();
  VirtualThread& me = running();
  pass_on(std::max(due, me.clock));
  recorder_.span(me.number, "sleeps", me.runs_since, me.clock);
  me.runs_since = me.clock;
}

void Scheduler::yield() {
  VirtualThread& me = running();
  if (++me.yields > kYieldsMax) fail("a thread waits for a lock for ever");
  count_call();
  advance(price(options_.system_call));
  pass_on(me.clock);
}

void Scheduler::pause() {
  advance(draw_price(options_.pause));
  if (options_.spin_skip == Nanos()) return;
  Spin& spin = running().spin;
  if (!spin.end_round(running().clock)) return;
  const Rounds rounds = spin.rounds();
  Instant until = running().clock + options_.spin_skip;
  if (options_.in_step) until = until - Nanos(until.ns() % options_.spin_skip.count());
  go_round(rounds, rounds.end_of_round(until));
  spin.go_on(running().clock);
}

int64_t Scheduler::compute(Nanos step, int64_t most, const void* word) {
  VirtualThread& me = running();
  words_.look(me.number, word);
  const Instant begin = me.clock;
  const Nanos jumps = jumps_;
  ++computing_;
  go_round({begin, step}, begin + step * most);
  --computing_;
  return (me.clock - begin - (jumps_ - jumps)).count() / step.count();
}

void Scheduler::go_round(const Rounds& rounds, Instant until) {
  VirtualThread& me = running();
  const Nanos away = me.away;
  me.rounds = rounds;
  pass_on(until);
  me.rounds = {};
  me.away = away;
}

// Those in the midst of a round catch up first, so that they see it from now on, and not before.
void Scheduler::tell(Words::Marks looked, const void* at) {
  while (end_rounds(looked)) {
    pass_on(running().clock);
    looked |= words_.write(running_, at);
  }
  for_each(looked, [](VirtualThread& thread) { thread.spin.news(); });
}

bool Scheduler::end_rounds(const Words::Marks& threads) {
  const Instant now = running().clock;
  bool behind = false;
  for_each(threads, [&](VirtualThread& thread) {
    if (thread.rounds.length == Nanos()) return;
    const Instant next = thread.rounds.next_look(now);
    if (next >= agenda_.at(thread.number)) return;
    set_next(thread, next);
    behind = behind || next < now;
  });
  return behind;
}

template <typename Function>
void Scheduler::for_each(const Words::Marks& marks, const Function& function) {
  constexpr size_t kShared = Words::kMarks - 1;
  for (size_t i = marks._Find_first(); i < kShared; i = marks._Find_next(i)) {
    function(*threads_[i]);
  }
  if (!marks.test(kShared)) return;
  for (size_t i = kShared; i < threads_.size(); ++i) function(*threads_[i]);
}

Instant Scheduler::read_clock() {
  if (--until_jump_ == 0) {
    take_turn();
    jump();
  }
  // A free one must get on all the same if it waits for an instant.
  const Nanos least(options_.clock_read > Picos() ? 1 : 0);
  advance(free() ? least : draw_price(options_.clock_read));
  return running().clock;
}

// ---- Who goes on ----------------------------------------------------------------------------

void Scheduler::set_next(VirtualThread& thread, Instant at) {
  agenda_.set(thread.number, std::max(at, thread.clock));
  others_ = agenda_.earliest_beside(running_);
}

Nanos Scheduler::draw_wake_up(VirtualThread& thread) {
  Nanos after = draw_price(options_.wake_up);
  const uint32_t one_in = options_.late_wake_up_one_in;
  if (one_in == 0 || prng_.below(one_in) != 0) return after;
  const Nanos late = draw_price(options_.late_most);
  note_fault(after + late);
  thread.stalled_until = running().clock + after + late;
  return after + late;
}

void Scheduler::note_fault(Nanos time) {
  faults_ += time;
  faults_over_ = std::max(faults_over_, running().clock + time);
}

Nanos Scheduler::draw_between(Nanos least, Nanos most) {
  const double low = std::log(static_cast<double>(least.count()));
  const double high = std::log(static_cast<double>(most.count()));
  return Nanos(static_cast<int64_t>(std::exp(low + (high - low) * prng_.uniform())));
}

void Scheduler::read_slowly(const void* at, const void* place) {
  if (accesses_matter_) {
    come_to(place);
    meet_read(at);
  }
  access();
  keep_near();
  if (me_->spin.looks()) look(at);
}

void Scheduler::write_slowly(const void* at, const void* place, bool relaxed) {
  if (accesses_matter_) {
    come_to(place);
    meet_write(at);
  }
  access();
  relaxed ? keep_near() : take_turn();
  if (notes_writes()) note_write(at);
}

void Scheduler::pass_on_and_look(const void* at) {
  pass_on(me_->clock);
  if (me_->spin.looks()) look(at);
}

void Scheduler::pass_on_and_note(const void* at) {
  pass_on(me_->clock);
  if (notes_writes()) note_write(at);
}

void Scheduler::meet_read(const void* at) {
  if (--until_stall_ == 0) stall();
  if (options_.count_lines) lines_.read(running_, at);
}

void Scheduler::meet_write(const void* at) {
  if (--until_stall_ == 0) stall();
  if (--until_write_stall_ == 0) stall_at_write();
  if (options_.count_lines) lines_.write(running_, at);
}

void Scheduler::stall() {
  until_stall_ = 1 + prng_.below(2 * options_.stall_one_in);
  stop_for(draw_between(options_.stall_least, options_.stall_most));
}

void Scheduler::stall_at_write() {
  until_write_stall_ = 1 + prng_.below(2 * options_.write_stall_one_in);
  stop_for(draw_between(Nanos(100), options_.short_stall_most));
}

void Scheduler::stall_at_plain() {
  until_plain_stall_ = 1 + prng_.below(2 * options_.plain_stall_one_in);
  stop_for(draw_between(Nanos(100), options_.short_stall_most));
}

bool Scheduler::stalls_at(const void* place) const {
  // Where the program was loaded makes no difference.
  const auto at = static_cast<uint64_t>(static_cast<const char*>(place) - &__executable_start);
  const uint64_t mixed = (at ^ options_.seed * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  return ((mixed >> 32) * options_.stall_places_one_in) >> 32 == 0;
}

// Every second time at first; less often later, so that a place where threads always are does not
// keep them, and all may come to rest.
void Scheduler::stall_at(const void* place) {
  uint32_t& before = stalls_at_[place];
  if (prng_.below(2 + before) != 0) return;
  ++before;
  stop_for(draw_between(Nanos(100), options_.place_stall_most));
}

// The clock jumps forward for all threads: none runs meanwhile, and what was to end by then ends.
void Scheduler::jump() {
  until_jump_ = 1 + prng_.below(2 * options_.clock_jump_one_in);
  const Nanos time = draw_between(options_.stall_least, options_.stall_most);
  const Instant before = running().clock;
  jumps_ += time;
  if (faults_over_ > before) faults_over_ = faults_over_ + time;
  note_fault(time);
  recorder_.mark(running_, "the clock jumps", before);
  jumped_ = running().clock = before + time;
  running().away += time;
  for (const auto& thread : threads_) {
    const Instant next = agenda_.at(thread->number);
    if (thread->number == running_ || next == Instant::never()) continue;
    thread->rounds.begin = thread->rounds.begin + time;
    if (thread->stalled_until > before) thread->stalled_until = thread->stalled_until + time;
    set_next(*thread, thread->waits_for != nullptr ? std::max(next, jumped_) : next + time);
  }
  take_turn();
}

bool Scheduler::no_memory() {
  return no_memory_one_in_ > 0 && !switching_ && prng_.below(no_memory_one_in_) == 0;
}

Instant Scheduler::waits_since(uint32_t thread) const {
  const VirtualThread& one = *threads_.at(thread);
  return one.waits_for != nullptr ? one.waits_since : Instant::never();
}

Instant Scheduler::others_stalled_until() const {
  Instant until = jumped_;
  for (const auto& thread : threads_) {
    if (thread->number != running_) until = std::max(until, thread->stalled_until);
  }
  return until;
}

void Scheduler::record_run() {
  VirtualThread& me = running();
  recorder_.span(me.number, "runs", me.runs_since, me.clock);
  me.runs_since = me.clock;
}

void Scheduler::stop_for(Nanos time) {
  ++report_.stalls;
  note_fault(time);
  record_run();
  VirtualThread& me = running();
  recorder_.span(me.number, "is stalled", me.clock, me.clock + time);
  me.runs_since = me.stalled_until = me.clock = me.clock + time;
  me.away += time;
  take_turn();
}

WorldCounts Scheduler::counts() const {
  WorldCounts counts = counts_;
  for (const auto& thread : threads_) {
    if (thread->number == 0) continue;
    counts.accesses += thread->accesses;
    counts.plain_accesses += thread->plain_accesses;
  }
  counts.lines_fetched = lines_.fetched();
  counts.lines_taken = lines_.taken();
  counts.line_taken_most = lines_.taken_most();
  return counts;
}

void Scheduler::leave_fiber() {
  const bool any = running().locks > 0 || !running().words_locked.empty();
  if (any) fail("a fiber leaves its thread with a lock held");
}

void Scheduler::pass_on(Instant next) {
  agenda_.set(running_, next);
  const Instant at = agenda_.earliest();
  if (at == Instant::never()) fail("all threads wait for ever");
  if (at - kBegin > options_.end) fail("the program does not end");
  const uint32_t first = agenda_.first();
  others_ = agenda_.earliest_beside(first);
  VirtualThread& to = *threads_[first];
  if (at > to.clock) {
    to.away += at - to.clock;
    to.clock = at;
  }
  if (&to != me_) switch_to(to);
}

// Returns when this thread goes on.
[[gnu::noinline]] void Scheduler::switch_to(VirtualThread& to) {
  VirtualThread& from = *me_;
  me_ = &to;
  running_ = to.number;
  ++report_.switches;
  report_.digest = (report_.digest + to.number) * 0x9e3779b97f4a7c15u +
                   static_cast<uint64_t>(to.clock.ns());
  switching_ = true;
  set_thread_pointer(to.thread_pointer);
  rubato_context_switch(&from.context, &to.context);
  switching_ = false;
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
