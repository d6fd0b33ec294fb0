// SPDX-License-Identifier: Apache-2.0
#include "runtime/tls_reserve.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace rubato {

struct TlsReserve::State {
  State(uint32_t count, Make making) : ahead(count), make(std::move(making)) {}

  bool wants_more() const { return !failed && ready.size() < ahead; }
  std::unique_ptr<TlsBlock> pop() {
    std::unique_ptr<TlsBlock> taken = std::move(ready.back());
    ready.pop_back();
    asked.notify_one();
    return taken;
  }

  const uint32_t ahead;
  const Make make;

  std::mutex mutex;  // guards all below
  std::condition_variable asked;
  std::condition_variable answered;
  std::vector<std::unique_ptr<TlsBlock>> ready;
  bool failed = false;  // the last attempt has, and nobody has asked since
  bool held_up = false;  // somebody has waited in vain since the last attempt ended
  bool stops = false;
  bool ended = false;
};

TlsReserve::TlsReserve(uint32_t ahead, Make make)
    : state_(std::make_shared<State>(ahead, std::move(make))) {}

bool TlsReserve::start() {
  if (thread_.joinable()) return true;
  // It takes no signals that are meant for the process, only those of its own doing.
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    sigdelset(&blocked, own);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  try {
    thread_ = std::thread([state = state_] { keep_ready(*state); });
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_.joinable();
}

TlsReserve::~TlsReserve() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->stops = true;
  state_->asked.notify_one();
  const bool ends = state_->answered.wait_for(lock, std::chrono::nanoseconds(kWait.count()),
                                              [this] { return state_->ended; });
  lock.unlock();
  ends ? thread_.join() : thread_.detach();
}

void TlsReserve::keep_ready(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.asked.wait(lock, [&state] { return state.stops || state.wants_more(); });
    if (state.stops) break;
    lock.unlock();
    std::unique_ptr<TlsBlock> made = state.make();
    lock.lock();
    state.held_up = false;
    state.failed = made == nullptr;
    if (made != nullptr) state.ready.push_back(std::move(made));
    state.answered.notify_all();
  }
  state.ended = true;
  state.answered.notify_all();
}

std::unique_ptr<TlsBlock> TlsReserve::take() {
  {
    const std::scoped_lock lock(state_->mutex);
    if (!state_->ready.empty()) return state_->pop();
  }
  return left_inside_.load(std::memory_order_relaxed) == 0 ? state_->make() : take_from_thread();
}

std::unique_ptr<TlsBlock> TlsReserve::take_from_thread() {
  std::unique_lock lock(state_->mutex);
  if (state_->ready.empty()) {
    state_->failed = false;
    state_->asked.notify_one();
    if (state_->held_up) return nullptr;
    const bool answer =
        state_->answered.wait_for(lock, std::chrono::nanoseconds(kWait.count()),
                                  [this] { return !state_->ready.empty() || state_->failed; });
    if (!answer) state_->held_up = true;
    if (state_->ready.empty()) return nullptr;
  }
  return state_->pop();
}

void TlsReserve::give(std::unique_ptr<TlsBlock> block) {
  const std::scoped_lock lock(state_->mutex);
  state_->ready.push_back(std::move(block));
}

}  // namespace rubato
