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
//     grpc::ServerBidiReactor<Text, Text>* Chat(grpc::CallbackServerContext* context) override {
//       return rubato::run_bidi<Text, Text>(executor_, context, {.type = 2}, [](auto& stream) {
//         while (auto text = stream.read()) stream.write(answer(*text));
//         return grpc::Status::OK;
//       });
//     }
//   };
//
// A call's deadline, if it is before that of the attributes, and its cancellation, whatever theirs,
// become the task's, which ends at its next checkpoint or wait.
// read() and write() of streams wait without holding a worker (<rubato/wait.hpp>). Stop the server
// (grpc::Server::Shutdown), then the executor.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <rubato/executor.hpp>
#include <rubato/wait.hpp>

namespace rubato::inline v1 {

namespace detail {

// One operation at a time, which the task begins and awaits, and whose end a thread of gRPC tells.
// If the task was told to end while it waited, the operation stays underway.
class GrpcOperation {
 public:
  bool is_underway() const { return underway_; }
  void begin() { underway_ = true; }
  void end(bool ok) {
    ok_ = ok;
    ended_.release();
  }
  bool wait() {
    underway_ = !ended_.acquire();
    return !underway_ && ok_;
  }

 private:
  bool underway_ = false;  // the task's
  bool ok_ = false;        // ordered by the semaphore
  Semaphore ended_;
};

// One call, from its arrival until gRPC has no more use for it. The task and a write that it has
// begun hold it open; whoever lets go last tells the client how the task has ended, which also ends
// a read.
template <class Reactor>
class GrpcCall : public Reactor {
 public:
  explicit GrpcCall(grpc::CallbackServerContext* context) : context_(context) {}

  const Cancellation& cancellation() const { return cancellation_; }
  void set_status(grpc::Status status) { status_ = std::move(status); }

  // The task has ended. A write that it has left underway ends soon if the call is cancelled.
  void finish(Outcome outcome, std::chrono::nanoseconds retry_after) {
    if (outcome == Outcome::kRefused && retry_after.count() > 0) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(retry_after);
      context_->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(wait.count()));
    }
    if (outcome != Outcome::kFinished) {
      status_ = grpc::Status(code_of(outcome), TaskError(outcome).what());
    }
    if (writing_.is_underway()) context_->TryCancel();
    let_go();
  }

  void OnCancel() override { cancellation_.cancel(); }
  void OnDone() override { delete this; }
  // Neither of these waits, so gRPC needs no thread of its executor's for them.
  bool InternalInlineable() override { return true; }

 protected:
  GrpcOperation& writing() { return writing_; }
  void hold_open() { open_.fetch_add(1, std::memory_order_relaxed); }
  // What the others did before they let go is seen by the last.
  void let_go() {
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) this->Finish(status_);
  }

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
  GrpcOperation writing_;
  std::atomic<int> open_{1};
};

// Messages stay in the call, as gRPC may still use them when the task was told to end.
template <class Base, class Message>
class GrpcReading : public Base {
 public:
  using Base::Base;

  // The next message; nothing: the client has sent its last one, or is gone.
  std::optional<Message> read() {
    checkpoint();
    if (reading_.is_underway()) return std::nullopt;
    reading_.begin();
    this->StartRead(&message_);
    if (!reading_.wait()) return std::nullopt;
    return std::move(message_);
  }

  void OnReadDone(bool ok) override { reading_.end(ok); }

 private:
  Message message_;
  GrpcOperation reading_;
};

template <class Base, class Message>
class GrpcWriting : public Base {
 public:
  using Base::Base;

  // Waits until gRPC has taken the message, which is how a slow client slows the task down. False:
  // the client is gone.
  bool write(Message message) {
    checkpoint();
    if (this->writing().is_underway()) return false;
    message_ = std::move(message);
    this->hold_open();
    this->writing().begin();
    this->StartWrite(&message_);
    return this->writing().wait();
  }

  void OnWriteDone(bool ok) override {
    this->writing().end(ok);
    this->let_go();
  }

 private:
  Message message_;
};

// The time that a call has left, at least 1 ns; 0 = it has no deadline.
inline std::chrono::nanoseconds time_left(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return {};
  const auto left = std::chrono::nanoseconds(deadline - std::chrono::system_clock::now());
  return std::max(left, std::chrono::nanoseconds(1));
}

// Runs handle(call) as a task, and finishes the call. For the thread that gRPC calls.
template <class Call, class F>
Call* run_call(Executor& executor, grpc::CallbackServerContext* context,
               TaskAttributes attributes, F&& handle) {
  auto* const call = new Call(context);
  attributes.cancellation = call->cancellation();
  const std::chrono::nanoseconds left = time_left(*context);
  const bool own = attributes.deadline.count() != 0;
  if (left.count() != 0 && (!own || left < attributes.deadline)) attributes.deadline = left;
  const std::optional<Overloaded> refused = executor.try_execute(
      [call, handle = std::forward<F>(handle)]() mutable { call->set_status(handle(*call)); },
      attributes,
      [call](Outcome outcome, std::chrono::nanoseconds wait) { call->finish(outcome, wait); });
  if (refused) call->finish(Outcome::kRefused, refused->retry_after);
  return call;
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
  using Call = detail::GrpcCall<grpc::ServerUnaryReactor>;
  return detail::run_call<Call>(
      executor, context, std::move(attributes),
      [handle = std::forward<F>(handle)](Call&) mutable { return handle(); });
}

// The same for streams: handle(stream), where `std::optional<Request> stream.read()` has the next
// message, nothing after the last one, and `bool stream.write(Response)` is false once the client
// is gone. Both wait, and throw Cancelled once the call is cancelled or its deadline has passed;
// while the stack is unwound they return nothing and false instead, or true for what has been sent
// at once. One read and one write at a time, in the task; none after the handler has returned.
template <class Response, class F>
grpc::ServerWriteReactor<Response>* run_server_stream(Executor& executor,
                                                      grpc::CallbackServerContext* context,
                                                      TaskAttributes attributes, F&& handle) {
  using Call = detail::GrpcWriting<detail::GrpcCall<grpc::ServerWriteReactor<Response>>, Response>;
  return detail::run_call<Call>(executor, context, std::move(attributes), std::forward<F>(handle));
}
template <class Request, class F>
grpc::ServerReadReactor<Request>* run_client_stream(Executor& executor,
                                                    grpc::CallbackServerContext* context,
                                                    TaskAttributes attributes, F&& handle) {
  using Call = detail::GrpcReading<detail::GrpcCall<grpc::ServerReadReactor<Request>>, Request>;
  return detail::run_call<Call>(executor, context, std::move(attributes), std::forward<F>(handle));
}
template <class Request, class Response, class F>
grpc::ServerBidiReactor<Request, Response>* run_bidi(Executor& executor,
                                                     grpc::CallbackServerContext* context,
                                                     TaskAttributes attributes, F&& handle) {
  using Basic = detail::GrpcCall<grpc::ServerBidiReactor<Request, Response>>;
  using Call = detail::GrpcWriting<detail::GrpcReading<Basic, Request>, Response>;
  return detail::run_call<Call>(executor, context, std::move(attributes), std::forward<F>(handle));
}

}  // namespace rubato::inline v1
