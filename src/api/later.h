// SPDX-License-Identifier: Apache-2.0
//
// rubato_later: the reply to one request that is given after its handler has returned, by whoever
// holds the token, on any thread. The request waits for it on its fiber, without a worker. Token
// and request share the object; the one that leaves last frees it.
//
// Memory order: the guard of the queue orders the token's writes before the request's reads;
// `sharers_` releases what each has done with the object to the one that frees it.
#pragma once

#include <rubato/rubato.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/wait_queue.h"

struct rubato_later {
 public:
  // The holder of the token: appends, and gives the token up, with the reply or without.
  void append(std::string_view bytes) { bytes_.append(bytes); }
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void tell(bool replies) {
    {
      rubato::Claimed claimed;
      const rubato::WaitQueue::Guard guard(queue_);
      has_ended_ = true;
      replies_ = replies;
      queue_.wake_first(guard, claimed);
    }
    leave();
  }

  // The request: null = there is none, since the token was dropped or the request is to end. May
  // switch.
  const std::string* wait() {
    const rubato::Wake why = queue_.wait({}, [this] {
      return has_ended_ ? rubato::Wake::kWoken : rubato::Wake::kNone;
    });
    if (why == rubato::Wake::kWoken) return replies_ ? &bytes_ : nullptr;
    wanted_.store(false, std::memory_order_relaxed);
    return nullptr;
  }
  void leave() {
    if (sharers_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~rubato_later() = default;

  rubato::WaitQueue queue_;
  bool has_ended_ = false;  // guarded, and with it:
  bool replies_ = false;
  std::string bytes_;
  std::atomic<bool> wanted_{true};  // relaxed: a hint
  std::atomic<uint32_t> sharers_{2};
};
