// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio on Rubato's workers: an executor for asio::post, strands, timers, sockets, coroutines
// and whatever else has an associated executor. Needs Boost 1.74 or later; header only.
// Coroutines of Boost 1.74 want <utility> included before them.
//
//   rubato::AsioContext context(*executor);
//   asio::post(context.get_executor(), work);
//   asio::ip::tcp::acceptor acceptor(context.get_executor({.type = 1}), endpoint);
//
// Handlers are tasks: they may call checkpoints, and a long one never blocks a short one. What the
// handlers of one strand share is safe, since a strand starts its next handler when the one before
// has ended, suspended or not. Do not ask strand.running_in_this_thread() where handlers switch at
// checkpoints or wait: Asio notes strands by thread, and such a handler leaves the note to others
// and moves on without it. Under kSignal and kTimer the answer is right. Asio cannot be told that
// there is too much to do, so handlers are continuations: max_tasks does not bound them, and a stop
// that still waits runs them. Handlers that come later, that Overload::kAqm refuses or that a stop
// gives up are destroyed without a call, with the context at the latest. Bound the work where it is
// accepted.
#pragma once

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <rubato/executor.hpp>

namespace rubato::inline v1 {

// The services of Asio's objects (timers, sockets) for one Executor, which outlives the context and
// has no other one: the end of a context ends all tasks that the executor's stop has left.
// Stop and join the executor, then destroy timers and sockets, then the context, which destroys
// those that handlers hold. Any thread.
class AsioContext : public boost::asio::execution_context {
 public:
  class executor_type;

  explicit AsioContext(Executor& executor) : executor_(executor) {}
  ~AsioContext() {
    shutdown();
    executor_.end_left();  // shutdown() unwinds coroutines by handlers, and nobody else posts any
    destroy();
  }

  // Executors with other attributes differ. What is inherited from the submitting task is not if it
  // is detached, which suits handlers of sockets and timers.
  executor_type get_executor(TaskAttributes attributes = {.detached = true});

 private:
  friend class executor_type;

  Executor& executor_;
};

// As Asio's requirements of executors say. Any thread.
class AsioContext::executor_type {
 public:
  executor_type(AsioContext& context, TaskAttributes attributes) : context_(&context) {
    attributes.is_continuation = true;
    attributes_ = std::make_shared<TaskAttributes>(std::move(attributes));
  }

  // A move copies: a strand moves the handler that holds this executor into execute().
  executor_type(const executor_type&) noexcept = default;
  executor_type& operator=(const executor_type&) noexcept = default;

  template <class F>
  void execute(F&& function) const {
    auto call = [function = std::decay_t<F>(std::forward<F>(function))]() mutable {
      std::move(function)();
    };
    if (context_->executor_.execute(std::move(call), *attributes_)) return;
    throw std::bad_alloc();
  }

  boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
    return *context_;
  }
  static constexpr boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t) noexcept {
    return boost::asio::execution::blocking_t::never;
  }
  executor_type require(boost::asio::execution::blocking_t::never_t) const { return *this; }

  friend bool operator==(const executor_type& a, const executor_type& b) noexcept {
    return a.context_ == b.context_ && a.attributes_ == b.attributes_;
  }
  friend bool operator!=(const executor_type& a, const executor_type& b) noexcept {
    return !(a == b);
  }

 private:
  AsioContext* context_;
  std::shared_ptr<const TaskAttributes> attributes_;
};

inline AsioContext::executor_type AsioContext::get_executor(TaskAttributes attributes) {
  return {*this, std::move(attributes)};
}

}  // namespace rubato::inline v1
