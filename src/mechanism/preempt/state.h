// SPDX-License-Identifier: Apache-2.0
//
// PreemptState: the word that records one worker's asynchronous preemption, shared by the worker,
// the handler that an interrupt runs on the worker's own thread, and one sender: the timer core, or
// that same handler where the worker's own timer calls it. Word = the slice's number and a phase:
//
//   phase       means                              left by    through    to
//   kIdle       no slice runs that could end       worker     start      kArmed, next number
//   kArmed      a slice runs, no request yet       sender     request    kRequested
//                                                  worker     stop       kIdle
//   kRequested  it shall end; an interrupt is on   handler    take       kTaken
//               its way                            handler    defer      kDeferred
//                                                  worker     take       kTaken (at a checkpoint)
//                                                  worker     stop       kIdle
//   kDeferred   the interrupt came where the       worker     take       kTaken (end of a
//                                                                        non-preemptible region,
//               request must not be left                                 checkpoint, interrupt)
//                                                  sender     request    kRequested (again, later)
//                                                  worker     stop       kIdle
//   kTaken      the worker is ending the slice     worker     start      kArmed, next number
//                                                  worker     stop       kIdle
//
// The consequences:
//   * Only a requested slice is taken, and once: take finds kRequested or kDeferred and leaves
//     kTaken; the number never comes back.
//   * An interrupt that comes late preempts no slice: it finds another phase. If it finds a *newer*
//     slice requested, it answers that one, and the interrupt of that one is then the late one.
//   * No request is lost: kRequested has an interrupt behind it that was sent after it was written,
//     and kDeferred is left by whatever comes first of three, one of which is the sender's repeat.
//
// Memory order: the word is all that is shared, together with what the worker published for the
// sender before start (release; look acquires). request releases for take to acquire. The worker
// and its handler store without comparing: in the phases in which they do, the sender either does
// not write, or what it writes is a request for the slice that is just being left, which is void.
// The handler may come between any two instructions of the worker; it changes only kRequested, and
// every method of the worker gives the same whether that happened before or in the middle of it.
//
// Interrupts nest. One that comes while a method of the worker runs must pass may_leave = false, so
// the handler, before it asks, and the runtime, before it works, mark the worker as not in its
// application; the code that ends that mark checks is_wanted() afterwards.
//
// Thread safety: start, stop, take and defer on the worker's thread, handler included; look and
// request from one sender at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace rubato {

enum class PreemptPhase : uint8_t { kIdle, kArmed, kRequested, kDeferred, kTaken };

// The action for an interrupt: none (it came too late), remember it, end the slice.
enum class Answer : uint8_t { kNothing, kDefer, kTake };

// The state that the sender saw; request() refers to it.
struct PreemptLook {
  uint64_t word = 0;
  PreemptPhase phase() const { return static_cast<PreemptPhase>(word & 7); }
  uint64_t slice() const { return word >> 3; }
};

// `Word` is std::atomic<uint64_t>, or the model checker's.
template <class Word = std::atomic<uint64_t>>
class BasicPreemptState {
 public:
  // A slice starts; returns its number.
  uint64_t start() {
    word_.store(word(++slice_, PreemptPhase::kArmed), std::memory_order_release);
    return slice_;
  }

  // No slice runs.
  void stop() { word_.store(word(slice_, PreemptPhase::kIdle), std::memory_order_release); }

  // True once per requested slice: the caller ends it, then calls start or stop.
  bool take() {
    const PreemptLook seen = look();
    if (!wanted(seen.phase())) return false;
    RUBATO_DCHECK(seen.slice() == slice_);
    word_.store(word(slice_, PreemptPhase::kTaken), std::memory_order_release);
    return true;
  }

  // The end of the slice is requested but not possible now. False if nothing was to be deferred.
  bool defer() {
    if (look().phase() != PreemptPhase::kRequested) return false;
    word_.store(word(slice_, PreemptPhase::kDeferred), std::memory_order_release);
    return true;
  }

  // Decides what the handler does with an interrupt; `may_leave`: the request may be left where it
  // is.
  Answer interrupt(bool may_leave) {
    if (may_leave) return take() ? Answer::kTake : Answer::kNothing;
    return defer() ? Answer::kDefer : Answer::kNothing;
  }

  // True if there is a slice to take.
  bool is_wanted() const { return wanted(look().phase()); }

  PreemptLook look() const { return {word_.load(std::memory_order_acquire)}; }

  // Claims the slice that was seen armed or deferred. True = send an interrupt, now. False: the
  // slice is over, or has changed meanwhile.
  bool request(PreemptLook seen) {
    if (seen.phase() != PreemptPhase::kArmed && seen.phase() != PreemptPhase::kDeferred) {
      return false;
    }
    return word_.compare_exchange_strong(seen.word, word(seen.slice(), PreemptPhase::kRequested),
                                         std::memory_order_acq_rel, std::memory_order_relaxed);
  }

 private:
  static uint64_t word(uint64_t slice, PreemptPhase phase) {
    return slice << 3 | static_cast<uint64_t>(phase);
  }
  static bool wanted(PreemptPhase phase) {
    return phase == PreemptPhase::kRequested || phase == PreemptPhase::kDeferred;
  }

  Word word_{uint64_t{0}};
  uint64_t slice_ = 0;  // the worker's
};

using PreemptState = BasicPreemptState<>;

}  // namespace rubato
