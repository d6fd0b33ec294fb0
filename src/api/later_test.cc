// SPDX-License-Identifier: Apache-2.0
//
// Requests of servers that wait: in their handlers, and for replies that other threads give later.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/rubato.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Application;
using rubato::Channel;
using rubato::LaterReply;
using rubato::LoopbackClient;
using rubato::Options;
using rubato::Request;
using rubato::Semaphore;
using rubato::Server;

Options loopback() {
  Options options;
  options.transport = rubato::Transport::kLoopback;
  options.workers = 1;
  return options;
}

Application lines() {
  Application app;
  app.framing = rubato::Framing::kLines;
  return app;
}

// A server in a thread of its own; stopped at the end.
class Running {
 public:
  explicit Running(Application app, const Options& options = loopback())
      : server_(Server::create(options, std::move(app))) {
    EXPECT_TRUE(server_.ok()) << (server_.ok() ? "" : server_.error());
    thread_ = std::thread([this] { drained_ = server_->run(); });
  }
  ~Running() { stop(); }
  Server& operator*() { return *server_; }
  Server* operator->() { return &*server_; }
  // True: drained in time.
  bool stop() {
    server_->stop();
    if (thread_.joinable()) thread_.join();
    return drained_.ok() && *drained_;
  }

 private:
  rubato::Result<Server> server_;
  rubato::Result<bool> drained_ = rubato::Error{"still running"};
  std::thread thread_;
};

std::string call(LoopbackClient& client, std::string_view bytes, size_t reply_bytes) {
  EXPECT_TRUE(client.send(bytes));
  return client.receive(reply_bytes);
}

TEST(WaitingHandler, holds_no_worker) {
  Semaphore go;
  Semaphore waiting;
  Application app = lines();
  app.handle = [&](Request& request) {
    if (request.payload() == "wait") {
      waiting.release();
      go.acquire();
    }
    if (request.payload() == "go") go.release(20);
    request.reply(request.payload());
  };
  Running server(std::move(app));
  std::vector<std::unique_ptr<LoopbackClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<LoopbackClient>(*server));
    EXPECT_TRUE(clients.back()->send("wait\n"));
  }
  for (int i = 0; i < 20; ++i) waiting.acquire();
  LoopbackClient other(*server);
  EXPECT_EQ(call(other, "go\n", 3), "go\n");
  for (auto& client : clients) EXPECT_EQ(client->receive(5), "wait\n");
  EXPECT_TRUE(server.stop());
}

TEST(WaitingHandler, is_unwound_when_its_client_is_gone) {
  Semaphore waiting;
  Semaphore unwound;
  Application app = lines();
  app.handle = [&](Request&) {
    struct Mark {
      Semaphore& set;
      ~Mark() { set.release(); }
    } const mark{unwound};
    waiting.release();
    Semaphore().acquire();
  };
  Running server(std::move(app));
  {
    LoopbackClient client(*server);
    EXPECT_TRUE(client.send("x\n"));
    waiting.acquire();
  }
  EXPECT_TRUE(unwound.acquire());
  EXPECT_TRUE(server.stop());
}

TEST(LaterReplies, are_sent_from_another_thread_and_hold_no_worker) {
  Channel<LaterReply> channel(64);
  Application app = lines();
  app.handle = [&](Request& request) {
    if (request.payload() == "now") return static_cast<void>(request.reply("now"));
    request.reply("first, ");
    LaterReply later = request.defer();
    EXPECT_TRUE(later);
    EXPECT_FALSE(request.defer());
    EXPECT_TRUE(channel.push(std::move(later)));
  };
  Running server(std::move(app));
  std::vector<std::unique_ptr<LoopbackClient>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<LoopbackClient>(*server));
    EXPECT_TRUE(clients.back()->send("later\n"));
  }
  LoopbackClient other(*server);
  EXPECT_EQ(call(other, "now\n", 4), "now\n");
  std::thread thread([&] {
    for (int i = 0; i < 10; ++i) {
      LaterReply later = std::move(*channel.pop());
      EXPECT_TRUE(later.append("then "));
      later.send("last");
      EXPECT_FALSE(later);
    }
  });
  for (auto& client : clients) EXPECT_EQ(client->receive(17), "first, then last\n");
  thread.join();
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server->stats().failed, 0u);
}

TEST(LaterReplies, that_are_dropped_fail_their_request) {
  Application app = lines();
  app.handle = [](Request& request) { LaterReply dropped = request.defer(); };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "x\n", 64), "refused: the request failed\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server->stats().failed, 1u);
}

TEST(LaterReplies, come_too_late_after_the_deadline) {
  Channel<LaterReply> channel(1);
  Application app = lines();
  app.classify = [](std::string_view) { return rubato::Class{.deadline = 50ms}; };
  app.handle = [&](Request& request) { channel.push(request.defer()); };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_TRUE(client.send("x\n"));
  auto later = channel.pop(5s);
  client.receive(64);
  if (later) {
    EXPECT_FALSE(later->append("late"));
    later->send();
  }
  EXPECT_TRUE(server.stop());
}

TEST(LaterReplies, of_a_server_that_stops_are_waited_for) {
  Channel<LaterReply> channel(1);
  Application app = lines();
  app.handle = [&](Request& request) { channel.push(request.defer()); };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_TRUE(client.send("x\n"));
  auto later = channel.pop();
  server->stop();
  later->send("done");
  EXPECT_EQ(client.receive(5), "done\n");
  EXPECT_TRUE(server.stop());
}

// Tokens sent and dropped while the requests end by themselves, on connections that go.
TEST(LaterReplies, of_many_that_come_and_go_none_is_lost) {
  Channel<LaterReply> channel(256);
  Application app = lines();
  app.handle = [&](Request& request) { channel.try_push(request.defer()); };
  Running server(std::move(app));
  std::thread thread([&] {
    int i = 0;
    while (auto later = channel.pop()) {
      if (++i % 5 != 0) later->send("ok");
    }
  });
  for (int round = 0; round < 50; ++round) {
    LoopbackClient stays(*server);
    LoopbackClient goes(*server);
    EXPECT_TRUE(goes.send("x\n"));
    EXPECT_TRUE(stays.send("x\n"));
    const std::string reply = stays.receive(3);
    EXPECT_TRUE(reply == "ok\n" || reply == "ref") << reply;
  }
  EXPECT_TRUE(server.stop());
  channel.close();
  thread.join();
}

}  // namespace
