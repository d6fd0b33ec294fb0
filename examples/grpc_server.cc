// SPDX-License-Identifier: Apache-2.0
//
// A gRPC server whose handlers are tasks: Echo is answered at once however many calls of Compute
// are underway, and a Chat that waits for its client holds no thread. Each method has a type of its
// own in the statistics.
#include <signal.h>
#include <work.grpc.pb.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <rubato/grpc.hpp>

#include "work.h"

namespace {

using namespace rubato_examples;

enum Type : uint32_t { kEcho = 1, kCompute = 2, kChat = 3 };

class Service final : public Work::CallbackService {
 public:
  explicit Service(rubato::Executor& executor) : executor_(executor) {}

  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const Text* request,
                                 Text* reply) override {
    return rubato::run_unary(executor_, context, {.type = kEcho}, [=] {
      reply->set_text(request->text());
      return grpc::Status::OK;
    });
  }
  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* context, const Steps* request,
                                    Result* reply) override {
    return rubato::run_unary(executor_, context, {.type = kCompute, .is_long = true}, [=] {
      reply->set_value(work(request->millions() * 1'000'000));
      return grpc::Status::OK;
    });
  }
  grpc::ServerBidiReactor<Text, Text>* Chat(grpc::CallbackServerContext* context) override {
    return rubato::run_bidi<Text, Text>(executor_, context, {.type = kChat}, [](auto& stream) {
      while (auto text = stream.read()) stream.write(std::move(*text));
      return grpc::Status::OK;
    });
  }

 private:
  rubato::Executor& executor_;
};

}  // namespace

int main(int argc, char** argv) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);  // before there are threads
  auto executor = rubato::Executor::create({.type_names = {"", "echo", "compute", "chat"}});
  if (!executor) return std::fprintf(stderr, "%s\n", executor.error().c_str()), 1;
  Service service(*executor);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("127.0.0.1:") + (argc > 1 ? argv[1] : "0"),
                           grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::printf("listening on %d\n", port);
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&stop, &signal);
  server->Shutdown();
}
