// SPDX-License-Identifier: Apache-2.0
//
// gRPC handlers as tasks: a service of gRPC's callback API hands its calls to an Executor, so that
// long calls block no short ones, whatever threads gRPC has. Needs gRPC 1.51 or later; header only.
//
//   class Service final : public Work::CallbackService {
//     grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text* request,
//                                    Text* reply) override {
//       return rubato::run_unary(executor_, context, {.type = 1},
//                                [=] { return echo(*request, reply); });
//     }
//   };
//
// A call's deadline and cancellation become the task's, which ends at its next checkpoint. Stop
// the server (grpc::Server::Shutdown), then the executor.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <rubato/executor.hpp>

namespace rubato::inline v1 {

namespace detail {

// One unary call, from its arrival until gRPC has no more use for it.
class GrpcCall final : public grpc::ServerUnaryReactor {
 public:
  explicit GrpcCall(grpc::CallbackServerContext* context) : context_(context) {}

  const Cancellation& cancellation() const { return cancellation_; }
  void set_status(grpc::Status status) { status_ = std::move(status); }

  // Tells the client how the task has ended.
  void finish(Outcome outcome, std::chrono::nanoseconds retry_after) {
    if (outcome == Outcome::kRefused && retry_after.count() > 0) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(retry_after);
      context_->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(wait.count()));
    }
    Finish(outcome == Outcome::kFinished
               ? status_
               : grpc::Status(code_of(outcome), TaskError(outcome).what()));
  }

  void OnCancel() override { cancellation_.cancel(); }
  void OnDone() override { delete this; }

 private:
  static grpc::StatusCode code_of(Outcome outcome) {
    switch (outcome) {
      case Outcome::kRefused: return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case Outcome::kExpired: return grpc::StatusCode::DEADLINE_EXCEEDED;
      case Outcome::kCancelled: return grpc::StatusCode::CANCELLED;
      case Outcome::kFinished:
      case Outcome::kFailed: break;
    }
    return grpc::StatusCode::INTERNAL;
  }

  grpc::CallbackServerContext* const context_;
  const Cancellation cancellation_;
  grpc::Status status_;
};

// The time that a call has left, at least 1 ns; 0 = it has no deadline.
inline std::chrono::nanoseconds time_left(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return {};
  const auto left = std::chrono::nanoseconds(deadline - std::chrono::system_clock::now());
  return std::max(left, std::chrono::nanoseconds(1));
}

}  // namespace detail

// Runs handle(), which returns a grpc::Status, as a task with these attributes (the type of the
// method, say), and finishes the call. What the executor refuses is RESOURCE_EXHAUSTED, with
// grpc-retry-pushback-ms where a time is known; an exception of the handler is INTERNAL. The
// request and the reply are valid until the handler has returned. For the thread that gRPC calls;
// does not block.
template <class F>
grpc::ServerUnaryReactor* run_unary(Executor& executor, grpc::CallbackServerContext* context,
                                    TaskAttributes attributes, F&& handle) {
  auto* const call = new detail::GrpcCall(context);
  attributes.cancellation = call->cancellation();
  attributes.deadline = detail::time_left(*context);
  const std::optional<Overloaded> refused = executor.try_execute(
      [call, handle = std::forward<F>(handle)]() mutable { call->set_status(handle()); },
      attributes,
      [call](Outcome outcome, std::chrono::nanoseconds wait) { call->finish(outcome, wait); });
  if (refused) call->finish(Outcome::kRefused, refused->retry_after);
  return call;
}

}  // namespace rubato::inline v1
