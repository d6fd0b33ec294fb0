// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: the threads of one world, and which of them goes on. For the library's own files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/prng.h"
#include "mechanism/fiber/context.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/tls_block.h"
#include "virtual/agenda.h"
#include "virtual/line_counter.h"
#include "virtual/network.h"
#include "virtual/recorder.h"
#include "virtual/spin.h"
#include "virtual/words.h"
#include "virtual/world.h"

namespace rubato::virt {

// A thread of the world. It finds its thread-local storage in a block that is lent to it.
struct VirtualThread {
  Context context;  // valid while another thread runs
  // What every access touches.
  Instant clock;
  uint64_t accesses = 0;
  bool free = false;  // its accesses and system calls cost nothing
  Spin spin;

  std::unique_ptr<TlsBlock> tls;
  uintptr_t thread_pointer = 0;  // also its pthread_t
  Stack* stack = nullptr;        // null for the first thread
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  uint32_t number = 0;
  uint64_t plain_accesses = 0;
  Nanos away;                       // of the clock: waits, stalls and jumps
  const void* waits_for = nullptr;  // null = it can go on
  bool woken = false;               // the last wait was ended by a wake-up
  bool ended = false;
  bool joined = false;
  uint32_t locks = 0;  // mutexes that it holds
  std::vector<const void*> words_locked;  // locks of another kind
  Rounds rounds;  // that it is taken to go, until what it looks at is written; mostly none
  Nanos cpu_time() const { return clock - Instant() - away; }

  uint32_t yields = 0;  // since its last other call
  Instant runs_since;     // what was before is recorded
  Instant waits_since;    // while waits_for != nullptr
  Instant stalled_until;  // its last stall, or late wake-up
};

class Scheduler {
 public:
  explicit Scheduler(const WorldOptions& options);
  ~Scheduler();

  // False = accesses that are not atomic do nothing in the present world.
  static bool sees_plain_accesses() { return sees_plain_accesses_; }
  // The running thread's world; null outside. Within a function not from before a switch.
  static Scheduler* here() { return here_; }
  // Returns what it was.
  static Scheduler* set_here(Scheduler* scheduler);

  // The calling thread becomes the first; runs `body` and then what the other threads have left.
  WorldReport run(const std::function<void()>& body);

  // Called by the running thread.
  VirtualThread& running() { return *me_; }
  Network& network() { return network_; }
  // What a thread does for itself only adds to its clock. Before anything that others may see, or
  // that they may have changed, it lets those go on whose clocks are behind its own.
  void take_turn() {
    if (me_->clock - same_ >= others_) pass_on(me_->clock);
  }
  // The same, for what others need not see at once: it may be ahead of them by `lead`.
  void keep_near() {
    if (me_->clock - ahead_ >= others_) pass_on(me_->clock);
  }
  // Atomic accesses at a place of the program, null = at none: what they do takes effect in the
  // order of time. All calls are the last thing they do: the usual access keeps no registers.
  void read(const void* at, const void* place) {
    if (accesses_matter_ || !try_access()) [[unlikely]] return read_slowly(at, place);
    if (me_->clock - ahead_ >= others_) [[unlikely]] return pass_on_and_look(at);
    if (me_->spin.looks()) look(at);
  }
  void write(const void* at, const void* place = nullptr, bool relaxed = false) {
    if (accesses_matter_ || !try_access()) [[unlikely]] return write_slowly(at, place, relaxed);
    const Nanos ahead = relaxed ? ahead_ : same_;
    if (me_->clock - ahead >= others_) [[unlikely]] return pass_on_and_note(at);
    if (notes_writes()) note_write(at);
  }
  // Other accesses, which other threads need not see in order: nothing happens at them.
  void plain_read(const void* at) {
    pass_time();
    if (options_.count_lines) lines_.read(running_, at);
  }
  void plain_write(const void* at) {
    pass_time();
    if (options_.count_lines) lines_.write(running_, at);
  }
  // Of several that go on at once the one with the lowest number is first, also in step.
  void compute(Nanos time) {
    advance(time);
    if (me_->clock >= others_) pass_on(me_->clock);
  }
  // Computes in up to `most` steps, which is not 0, until another thread has written `word`.
  // Returns in how many.
  int64_t compute(Nanos step, int64_t most, const void* word);
  void pause();
  void call() {
    running().yields = 0;
    count_call();
    advance(price(options_.system_call));
    take_turn();
  }
  // One whose time is that of the wait or of the wake-up.
  void count_call() {
    if (running_ != 0) ++counts_.calls;
  }
  // What it takes to go on after a wait that nobody's wake() ended.
  void resume() { advance(draw_wake_up(running())); }
  void yield();
  Instant read_clock();

  // Waits for wake(what), for the deadline, or for nothing at all (a spurious wake-up). True = it
  // was woken.
  bool wait(const void* what, Instant deadline = Instant::never());
  // Wakes up to `most` of those that wait; the number woken.
  uint32_t wake(const void* what, uint32_t most);
  void sleep_until(Instant due);

  // Null: there are no more stacks or threads.
  VirtualThread* create(void* (*start)(void*), void* argument);
  VirtualThread* find(uintptr_t thread_pointer);
  void* join(VirtualThread& thread);
  [[noreturn]] void end(void* result);

  // True = a call for memory is to fail.
  bool no_memory();
  void fail_memory(uint32_t one_in) { no_memory_one_in_ = one_in; }

  // Never = the thread goes on, or is about to.
  Instant waits_since(uint32_t thread) const;
  Instant others_stalled_until() const;

  // The running thread has taken a lock that is a word of memory, or has given it up.
  void note_lock(const void* word) { running().words_locked.push_back(word); }
  void note_unlock(const void* word) { std::erase(running().words_locked, word); }
  // A fiber is about to leave the running thread to another.
  void leave_fiber();
  Nanos faults() const { return faults_; }
  Instant faults_over() const { return faults_over_; }
  WorldCounts counts() const;
  // Says what is wrong, with the seed and what each thread does, and aborts.
  [[noreturn]] void fail(const char* what) const;

 private:
  static constexpr int64_t kNano = Picos(Nanos(1)).count();

  static void entry(void* argument);

  Nanos draw_price(Nanos mean) {
    return mean / 2 + Nanos(static_cast<int64_t>(
                          prng_.below(static_cast<uint32_t>(mean.count()) + 1)));
  }
  Nanos draw_price(Picos mean) {
    const auto bound = static_cast<uint32_t>(mean.count() + kNano);
    return Nanos((mean.count() / 2 + prng_.below(bound)) / kNano);
  }
  Nanos price(Picos mean) { return free() ? Nanos() : draw_price(mean); }
  // An atomic access takes its time: of most steps, so with a byte of a draw each.
  void access() {
    ++me_->accesses;
    if (free()) return;
    if (dice_ <= 0xff) [[unlikely]] draw_dice();
    advance(access_prices_[dice_ & 0xff]);
    dice_ >>= 8;
  }
  // False = it must be drawn first what it takes.
  bool try_access() {
    VirtualThread& me = *me_;
    if (!me.free) {
      if (dice_ <= 0xff) [[unlikely]] return false;
      me.clock = me.clock + access_prices_[dice_ & 0xff];
      dice_ >>= 8;
    }
    ++me.accesses;
    return true;
  }
  void read_slowly(const void* at, const void* place);
  void write_slowly(const void* at, const void* place, bool relaxed);
  void pass_on_and_look(const void* at);
  void pass_on_and_note(const void* at);
  // Not inlined, so that accesses keep no registers for them.
  [[gnu::noinline]] void draw_dice() { dice_ = prng_.next() | uint64_t{1} << 63; }
  [[gnu::noinline]] void look(const void* at) {
    if (at != nullptr) words_.look(running_, at);
  }
  // What else happens at one, in worlds where something does.
  void come_to(const void* place) {
    const bool stalls = options_.stall_places_one_in > 0 && place != nullptr && stalls_at(place);
    if (stalls) stall_at(place);
  }
  void meet_read(const void* at);
  void meet_write(const void* at);
  bool free() const { return me_->free; }
  void advance(Nanos time) {
    me_->clock = me_->clock + time;
  }
  void pass_time() {
    if (switching_) return;  // functions of src/mechanism that switch_to calls
    if (free()) return;
    ++me_->plain_accesses;
    advance(options_.plain_access);
    if (--until_plain_stall_ == 0) stall_at_plain();
  }
  // Threads may be in rounds.
  bool notes_writes() const { return options_.spin_skip > Nanos() || computing_ > 0; }
  void note_write(const void* at) {
    const bool expected = me_->spin.expected(at);
    if (me_->spin.looks()) words_.look(running_, at);
    if (expected) return;
    if (const Words::Marks looked = words_.write(running_, at); looked.any()) tell(looked, at);
  }
  // It is about to be written, and these threads have looked at it.
  void tell(Words::Marks looked, const void* at);
  // Those of them that are taken to go round are not any more. True = one has yet to come to now.
  bool end_rounds(const Words::Marks& threads);
  template <typename Function>
  void for_each(const Words::Marks& marks, const Function& function);
  // The running thread is taken to go round until then, or until the end of a round in which that
  // happens.
  void go_round(const Rounds& rounds, Instant until);
  void wake(VirtualThread& thread);
  Nanos draw_wake_up(VirtualThread& thread);
  // Short ones and long ones are about as many.
  Nanos draw_between(Nanos least, Nanos most);
  void stall();
  void stall_at_write();
  void stall_at_plain();
  // The same places throughout a run.
  bool stalls_at(const void* place) const;
  void stall_at(const void* place);
  void jump();
  void stop_for(Nanos time);
  // What the running thread did since runs_since ends now.
  void record_run();
  void note_fault(Nanos time);
  // The running thread goes on at `next`; never = when it is woken. Another one may run until then.
  void pass_on(Instant next);
  void switch_to(VirtualThread& to);
  // When another thread goes on; not before its own clock.
  void set_next(VirtualThread& thread, Instant at);

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Scheduler* here_ =
      nullptr;
  static inline constinit bool sees_plain_accesses_ = false;

  const WorldOptions options_;
  const Nanos same_;   // a thread passes on where its clock is so far ahead of another's
  const Nanos ahead_;  // the same in keep_near
  const bool accesses_matter_;  // they may meet faults, or lines are counted
  std::array<Nanos, 256> access_prices_;  // by what is drawn
  Prng prng_;
  uint64_t dice_ = 0;  // what is left of a draw, below a mark
  StackPool stacks_;
  std::vector<std::unique_ptr<VirtualThread>> threads_;
  std::vector<VirtualThread*> waiting_;  // in wait(), and not woken
  Agenda agenda_;  // when they go on, unless they are woken before; not of the running one
  uint32_t running_ = 0;
  VirtualThread* me_ = nullptr;        // the running one
  Instant others_ = Instant::never();  // the earliest of the others
  uint64_t until_stall_ = 0;  // 0 = never
  uint64_t until_write_stall_ = 0;
  uint64_t until_plain_stall_ = 0;
  std::unordered_map<const void*, uint32_t> stalls_at_;  // so far, by place
  uint64_t until_jump_ = 0;
  uint32_t no_memory_one_in_ = 0;
  Instant jumped_;  // the clock, last
  Nanos jumps_;     // of the clock, together
  bool switching_ = false;
  Words words_;
  uint32_t computing_ = 0;  // threads that compute in steps
  Nanos faults_;
  Instant faults_over_;
  Network network_;
  WorldCounts counts_;
  LineCounter lines_;
  Recorder& recorder_ = Recorder::of_process();
  WorldReport report_;
};

// The thread is outside of the world for as long as this lives: what it calls is not virtual.
class Outside {
 public:
  Outside();
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  Scheduler* const here_;
};

}  // namespace rubato::virt
