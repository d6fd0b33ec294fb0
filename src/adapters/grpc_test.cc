// SPDX-License-Identifier: Apache-2.0
//
// gRPC's callback API over an executor, with a real server and client on loopback.
#include <gtest/gtest.h>
#include <work.grpc.pb.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <rubato/grpc.hpp>

namespace {

using namespace rubato_examples;

enum Type : uint32_t { kEcho = 1, kCompute = 2 };

// Compute goes on until it is let go or told to end.
class Service final : public Work::CallbackService {
 public:
  explicit Service(rubato::Executor& executor) : executor_(executor) {}

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text* request,
                                 Text* reply) override {
    return rubato::run_unary(executor_, context, {.type = kEcho}, [=] {
      if (request->text() == "throw") throw 1;
      if (request->text() == "deny") return grpc::Status(grpc::PERMISSION_DENIED, "no");
      reply->set_text(request->text());
      return grpc::Status::OK;
    });
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps*,
                                    Result* reply) override {
    return rubato::run_unary(executor_, context, {.type = kCompute}, [this, reply] {
      started = true;
      while (goes_on) rubato::checkpoint();
      reply->set_value(7);
      return grpc::Status::OK;
    });
  }

  std::atomic<bool> started{false};
  std::atomic<bool> goes_on{true};

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

TEST_F(GrpcTest, what_the_executor_cannot_take_is_refused) {
  serve(1);
  grpc::ClientContext context;
  std::future<grpc::Status> slow = compute(context);
  wait_for_start();
  EXPECT_EQ(echo("more").error_code(), grpc::RESOURCE_EXHAUSTED);
  service_->goes_on = false;
  EXPECT_TRUE(slow.get().ok());
}

}  // namespace
