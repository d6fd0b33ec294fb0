// SPDX-License-Identifier: Apache-2.0
//
// gRPC's callback API over an executor, with a real server and client on loopback.
#include <gtest/gtest.h>
#include <pthread.h>
#include <work.grpc.pb.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/grpc.hpp>

namespace {

using namespace rubato_examples;

// What a clean-up does in a handler that is told to end while it waits for a message.
template <class Stream>
struct SaysGoodbye {
  ~SaysGoodbye() {
    if (std::uncaught_exceptions() == 0 || !rubato::this_task::is_cancelled()) return;
    EXPECT_FALSE(stream.read());
    static_cast<void>(stream.write({}));  // true if gRPC has sent it at once
    static_cast<void>(stream.write({}));
  }
  Stream& stream;
};

enum Type : uint32_t { kEcho = 1, kCompute = 2, kCount = 3, kSum = 4, kChat = 5 };

// Compute goes on until it is let go or told to end.
class Service final : public Work::CallbackService {
 public:
  explicit Service(rubato::Executor& executor) : executor_(executor) {}

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text* request,
                                 Text* reply) override {
    if (echo) return echo(context);
    return rubato::run_unary(executor_, context, {.type = kEcho}, [=] {
      if (request->text() == "throw") throw 1;
      if (request->text() == "deny") return grpc::Status(grpc::PERMISSION_DENIED, "no");
      reply->set_text(request->text());
      return grpc::Status::OK;
    });
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps*,
                                    Result* reply) override {
    return rubato::run_unary(executor_, context, {.type = kCompute, .deadline = compute_deadline},
                             [this, reply] {
      started = true;
      while (goes_on) rubato::checkpoint();
      reply->set_value(7);
      return grpc::Status::OK;
    });
  }

  grpc::ServerWriteReactor<Result>* Count(grpc::CallbackServerContext* context,
                                          const Steps* request) override {
    return rubato::run_server_stream<Result>(executor_, context, {.type = kCount},
                                             [this, request](auto& stream) {
      Result result;
      for (uint64_t i = 0; i < request->millions(); ++i) {
        result.set_value(i);
        if (!stream.write(result)) return grpc::Status(grpc::CANCELLED, "gone");
        ++written;
      }
      return grpc::Status::OK;
    });
  }
  grpc::ServerReadReactor<Steps>* Sum(grpc::CallbackServerContext* context,
                                      Result* reply) override {
    return rubato::run_client_stream<Steps>(executor_, context, {.type = kSum},
                                            [reply](auto& stream) {
      uint64_t sum = 0;
      while (auto steps = stream.read()) sum += steps->millions();
      reply->set_value(sum);
      return grpc::Status::OK;
    });
  }
  grpc::ServerBidiReactor<Text, Text>* Chat(grpc::CallbackServerContext* context) override {
    return rubato::run_bidi<Text, Text>(executor_, context, {.type = kChat}, [](auto& stream) {
      const SaysGoodbye<std::remove_reference_t<decltype(stream)>> at_the_end{stream};
      while (auto text = stream.read()) {
        if (text->text() == "throw") throw 1;
        stream.write(std::move(*text));
      }
      return grpc::Status::OK;
    });
  }

  std::function<grpc::ServerUnaryReactor*(grpc::CallbackServerContext*)> echo;  // in place of ours
  std::atomic<bool> started{false};
  std::atomic<bool> goes_on{true};
  std::chrono::nanoseconds compute_deadline{};
  std::atomic<uint64_t> written{0};

 private:
  rubato::Executor& executor_;
};

class GrpcTest : public ::testing::Test {
 protected:
  void serve(uint32_t max_tasks) {
    rubato::ExecutorOptions options;
    options.scheduler.workers = 1;
    options.max_tasks = max_tasks;
    auto executor = rubato::Executor::create(options);
    ASSERT_TRUE(executor.ok());
    executor_ = std::make_unique<rubato::Executor>(std::move(*executor));
    service_ = std::make_unique<Service>(*executor_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = Work::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                              grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    service_->goes_on = false;
    server_->Shutdown();
    executor_->stop();
    EXPECT_TRUE(executor_->join());
  }

  grpc::Status echo(const std::string& text) {
    grpc::ClientContext context;
    Text request;
    request.set_text(text);
    Text reply;
    const grpc::Status status = stub_->Echo(&context, request, &reply);
    if (status.ok()) {
      EXPECT_EQ(reply.text(), text);
    }
    return status;
  }
  std::future<grpc::Status> compute(grpc::ClientContext& context) {
    return std::async(std::launch::async, [&] {
      Result reply;
      const grpc::Status status = stub_->Compute(&context, Steps(), &reply);
      EXPECT_EQ(reply.value(), status.ok() ? 7u : 0u);
      return status;
    });
  }
  void wait_for_start() const {
    while (!service_->started) continue;
  }

  std::unique_ptr<rubato::Executor> executor_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Work::Stub> stub_;
};

TEST_F(GrpcTest, a_call_is_a_task_of_its_method_s_type) {
  serve(100);
  EXPECT_TRUE(echo("one").ok());
  EXPECT_TRUE(echo("two").ok());
  EXPECT_EQ(echo("deny").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(echo("throw").error_code(), grpc::INTERNAL);
  // The client may have its answer before the task is counted.
  while (executor_->times(kEcho).latency.count < 4) std::this_thread::yield();
  EXPECT_EQ(executor_->times(kEcho).latency.count, 4u);
  EXPECT_EQ(executor_->stats().failed, 1u);
}

// gRPC names the threads of its executor, to which it takes each call that ends by default.
TEST_F(GrpcTest, calls_that_end_wake_no_thread_for_that) {
  static std::atomic<int> ended, woken;
  struct Noted : rubato::detail::GrpcCall<grpc::ServerUnaryReactor> {
    using GrpcCall::GrpcCall;
    ~Noted() override {
      std::array<char, 16> name{};
      pthread_getname_np(pthread_self(), name.data(), name.size());
      if (std::string(name.data()).starts_with("default-execut")) ++woken;
      ++ended;
    }
  };
  serve(100);
  service_->echo = [this](grpc::CallbackServerContext* context) {
    return rubato::detail::run_call<Noted>(*executor_, context, {},
                                           [](Noted&) { return grpc::Status::OK; });
  };
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(echo("").ok());
  while (ended < 20) std::this_thread::yield();
  EXPECT_LT(woken, 20);
}

TEST_F(GrpcTest, a_long_call_blocks_no_short_one) {
  serve(100);
  grpc::ClientContext context;
  std::future<grpc::Status> slow = compute(context);
  wait_for_start();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(echo("short").ok());
  service_->goes_on = false;
  EXPECT_TRUE(slow.get().ok());
}

TEST_F(GrpcTest, a_task_ends_when_its_client_cancels) {
  serve(100);
  grpc::ClientContext context;
  std::future<grpc::Status> slow = compute(context);
  wait_for_start();
  context.TryCancel();
  EXPECT_EQ(slow.get().error_code(), grpc::CANCELLED);
  while (executor_->unfinished() > 0) EXPECT_TRUE(echo("meanwhile").ok());
}

TEST_F(GrpcTest, a_task_ends_at_the_deadline_of_its_call) {
  serve(100);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(compute(context).get().error_code(), grpc::DEADLINE_EXCEEDED);
  while (executor_->unfinished() > 0) EXPECT_TRUE(echo("meanwhile").ok());
}

TEST_F(GrpcTest, the_earlier_deadline_of_method_and_call_counts) {
  serve(100);
  service_->compute_deadline = std::chrono::milliseconds(10);
  grpc::ClientContext without;
  EXPECT_EQ(compute(without).get().error_code(), grpc::DEADLINE_EXCEEDED);
  grpc::ClientContext later;
  later.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(1));
  EXPECT_EQ(compute(later).get().error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST_F(GrpcTest, what_the_executor_cannot_take_is_refused) {
  serve(1);
  grpc::ClientContext context;
  std::future<grpc::Status> slow = compute(context);
  wait_for_start();
  EXPECT_EQ(echo("more").error_code(), grpc::RESOURCE_EXHAUSTED);
  service_->goes_on = false;
  EXPECT_TRUE(slow.get().ok());
}

TEST_F(GrpcTest, a_server_s_stream_has_every_message_and_the_status) {
  serve(100);
  grpc::ClientContext context;
  Steps request;
  request.set_millions(1000);
  const auto stream = stub_->Count(&context, request);
  Result result;
  uint64_t next = 0;
  while (stream->Read(&result)) EXPECT_EQ(result.value(), next++);
  EXPECT_EQ(next, 1000u);
  EXPECT_TRUE(stream->Finish().ok());
}

// A task that ends before gRPC's thread has let go of its last write did not leave it underway.
TEST_F(GrpcTest, brief_streams_end_with_their_status) {
  serve(100);
  for (int i = 0; i < 2000; ++i) {
    grpc::ClientContext context;
    Steps request;
    request.set_millions(1);
    const auto stream = stub_->Count(&context, request);
    Result result;
    while (stream->Read(&result)) {
    }
    ASSERT_EQ(stream->Finish().error_code(), grpc::OK);
  }
}

TEST_F(GrpcTest, a_client_s_stream_is_read_to_its_end) {
  serve(100);
  grpc::ClientContext context;
  Result reply;
  const auto stream = stub_->Sum(&context, &reply);
  Steps request;
  for (uint64_t i = 1; i <= 100; ++i) {
    request.set_millions(i);
    EXPECT_TRUE(stream->Write(request));
  }
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(reply.value(), 5050u);
}

// gRPC ends the process if it is given two reads, or two writes, at once.
TEST_F(GrpcTest, a_chat_that_is_told_to_end_may_not_begin_another_read_or_write) {
  serve(100);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto chat = stub_->Chat(&context);
  EXPECT_EQ(chat->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  while (executor_->unfinished() > 0) EXPECT_TRUE(echo("meanwhile").ok());
}

// One worker serves chats that wait for their clients, and calls meanwhile.
TEST_F(GrpcTest, streams_that_wait_hold_no_worker) {
  serve(100);
  std::array<grpc::ClientContext, 10> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<Text, Text>>> chats;
  for (grpc::ClientContext& context : contexts) chats.push_back(stub_->Chat(&context));
  Text text;
  for (const std::string word : {"one", "two"}) {
    for (const auto& chat : chats) {
      text.set_text(word);
      EXPECT_TRUE(chat->Write(text));
      EXPECT_TRUE(echo("meanwhile").ok());
    }
    for (const auto& chat : chats) {
      EXPECT_TRUE(chat->Read(&text));
      EXPECT_EQ(text.text(), word);
    }
  }
  for (const auto& chat : chats) {
    chat->WritesDone();
    EXPECT_FALSE(chat->Read(&text));
    EXPECT_TRUE(chat->Finish().ok());
  }
}

TEST_F(GrpcTest, a_stream_ends_when_its_client_cancels_or_its_time_is_over) {
  serve(100);
  grpc::ClientContext cancelled;
  const auto one = stub_->Chat(&cancelled);
  Text text;
  text.set_text("there");
  EXPECT_TRUE(one->Write(text));
  EXPECT_TRUE(one->Read(&text));
  cancelled.TryCancel();
  EXPECT_EQ(one->Finish().error_code(), grpc::CANCELLED);
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(stub_->Chat(&late)->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  while (executor_->unfinished() > 0) EXPECT_TRUE(echo("meanwhile").ok());
}

TEST_F(GrpcTest, a_client_that_does_not_read_stops_the_task_and_not_the_worker) {
  serve(100);
  grpc::ClientContext context;
  Steps request;
  request.set_millions(1'000'000'000);
  const auto stream = stub_->Count(&context, request);
  for (uint64_t before = 0, again = 0; again < 100; before = service_->written) {
    again = before > 0 && service_->written == before ? again + 1 : 0;
    EXPECT_TRUE(echo("meanwhile").ok());
  }
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  while (executor_->unfinished() > 0) std::this_thread::yield();
}

TEST_F(GrpcTest, a_stream_whose_handler_throws_or_is_refused_ends_with_a_status) {
  serve(1);
  grpc::ClientContext throwing;
  const auto chat = stub_->Chat(&throwing);
  Text text;
  text.set_text("throw");
  EXPECT_TRUE(chat->Write(text));
  EXPECT_FALSE(chat->Read(&text));
  EXPECT_EQ(chat->Finish().error_code(), grpc::INTERNAL);
  while (executor_->unfinished() > 0) std::this_thread::yield();
  grpc::ClientContext context;
  std::future<grpc::Status> slow = compute(context);
  wait_for_start();
  grpc::ClientContext refused;
  EXPECT_EQ(stub_->Chat(&refused)->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  service_->goes_on = false;
  EXPECT_TRUE(slow.get().ok());
}

}  // namespace
