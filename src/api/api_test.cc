// SPDX-License-Identifier: Apache-2.0
//
// The public C++ headers, and through them the C functions, over the loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <rubato/rubato.hpp>

namespace {

using rubato::Application;
using rubato::Framing;
using rubato::LoopbackClient;
using rubato::Options;
using rubato::Request;
using rubato::Server;

Application echo(Framing framing) {
  Application app;
  app.framing = framing;
  app.handle = [](Request& request) { request.reply(request.payload()); };
  return app;
}

Options loopback(uint32_t workers = 1) {
  Options options;
  options.transport = rubato::Transport::kLoopback;
  options.workers = workers;
  return options;
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

std::string error_of(const Options& options, Application app) {
  const auto server = Server::create(options, std::move(app));
  return server.ok() ? "" : server.error();
}

// Spins through checkpoints until `done` says so.
template <class F>
void checkpoints_until(F&& done) {
  while (!done()) rubato::checkpoint();
}

TEST(Framings, lines_get_their_newline_back) {
  Running server(echo(Framing::kLines));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "one\r\ntwo\n", 8), "one\ntwo\n");
}

TEST(Framings, prefixed_replies_carry_their_length) {
  Running server(echo(Framing::kLengthPrefix));
  LoopbackClient client(*server);
  const std::string bytes("\0\0\0\2hi\0\0\0\0", 10);
  EXPECT_EQ(call(client, bytes, bytes.size()), bytes);
}

TEST(Framings, the_length_in_front_is_right_although_feedback_came_in_between) {
  Application app;
  app.handle = [](Request& request) {
    request.reply("first ");
    const rubato::LongSection section;
    request.reply("second");
  };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, std::string(4, '\0'), 16), std::string("\0\0\0\14first second", 16));
}

TEST(Framings, a_user_function_may_say_where_requests_end) {
  Application app = echo(Framing::kUser);
  app.frame = [](std::string_view unread) {
    const size_t end = unread.find(';');
    return end == unread.npos ? rubato::Frame::incomplete()
                              : rubato::Frame::complete(end + 1, 1, end - 1);
  };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "<ab;<c;", 3), "abc");
}

TEST(Framings, what_is_too_large_is_refused_and_the_connection_closed) {
  Options options = loopback();
  options.max_request_bytes = 8;
  Running server(echo(Framing::kLines), options);
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "123456789\n", 100), "refused: too large\n");
  EXPECT_EQ(server->stats().malformed, 1u);
}

TEST(Framings, malformed_input_is_refused_in_the_words_of_the_application) {
  Application app = echo(Framing::kUser);
  app.frame = [](std::string_view) { return rubato::Frame::malformed(); };
  app.refuse = [](Request& request, rubato::Refusal reason) {
    request.reply(reason == rubato::Refusal::kMalformed ? "what?" : "why?");
  };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "?", 100), "what?");
}

TEST(Handler, that_throws_fails_its_request_only) {
  std::atomic<int> told{0};
  Application app = echo(Framing::kLines);
  app.handle = [](Request& request) {
    if (request.payload() == "bad") throw std::runtime_error("no");
    request.reply(request.payload());
  };
  app.on_exception = [&told](std::exception_ptr) { ++told; };
  Running server(std::move(app));
  LoopbackClient good(*server);
  LoopbackClient bad(*server);
  EXPECT_EQ(call(bad, "bad\n", 100), "refused: the request failed\n");
  EXPECT_EQ(call(good, "good\n", 5), "good\n");
  EXPECT_EQ(server->stats().failed, 1u);
  EXPECT_EQ(told, 1);
}

TEST(Handler, that_throws_after_a_preemption_is_caught_on_its_own_stack) {
  std::atomic<bool> overtaken{false};
  Application app = echo(Framing::kLines);
  app.handle = [&overtaken](Request& request) {
    if (request.payload() == "short") overtaken = true;
    if (request.payload() == "long") {
      checkpoints_until([&overtaken] { return overtaken.load(); });
      throw 1;
    }
    request.reply(request.payload());
  };
  Running server(std::move(app));
  LoopbackClient slow(*server);
  LoopbackClient quick(*server);
  ASSERT_TRUE(slow.send("long\n"));
  EXPECT_EQ(call(quick, "short\n", 6), "short\n");
  EXPECT_EQ(slow.receive(100), "refused: the request failed\n");
  EXPECT_GE(server->stats().preemptions, 1u);
}

TEST(Handler, is_unwound_by_a_checkpoint_once_its_client_is_gone) {
  struct Local {
    ~Local() { destroyed = true; }
    std::atomic<bool>& destroyed;
  };
  std::atomic<bool> runs{false};
  std::atomic<bool> swallowed{false};
  std::atomic<bool> destroyed{false};
  std::atomic<int> told{0};
  Application app = echo(Framing::kLines);
  app.handle = [&](Request& request) {
    if (request.payload() != "long") return;
    const Local local{destroyed};
    runs = true;
    try {
      for (;;) rubato::checkpoint();
    } catch (const std::exception&) {
      swallowed = true;
    }
  };
  app.on_exception = [&told](std::exception_ptr) { ++told; };
  Running server(std::move(app));
  {
    LoopbackClient client(*server);
    ASSERT_TRUE(client.send("long\n"));
    while (!runs) std::this_thread::yield();
  }
  while (!destroyed) std::this_thread::yield();
  EXPECT_TRUE(server.stop());
  EXPECT_FALSE(swallowed);
  EXPECT_EQ(told, 0) << "that it was cancelled is no trouble of the application's";
}

TEST(Handler, is_cancelled_at_its_deadline_and_not_run_past_it) {
  std::atomic<bool> runs{false};
  Application app = echo(Framing::kLines);
  app.classify = [](std::string_view payload) {
    rubato::Class what;
    if (payload == "long") what.deadline = std::chrono::milliseconds(20);
    if (payload == "late") what.deadline = std::chrono::nanoseconds(1);
    return what;
  };
  app.handle = [&](Request& request) {
    runs = runs || request.payload() == "late";
    if (request.payload() == "long") {
      while (!request.cancelled()) static_cast<void>(rubato_checkpoint());
      return;
    }
    request.reply("in time");
  };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "late\n", 18), "refused: overload\n");
  EXPECT_EQ(call(client, "short\n", 8), "in time\n");
  EXPECT_EQ(call(client, "long\n", 100), "refused: the request failed\n");
  EXPECT_FALSE(runs);
}

TEST(Handler, is_told_what_the_classifier_said) {
  std::atomic<bool> overtaken{false};
  Application app = echo(Framing::kLines);
  app.classify = [](std::string_view payload) {
    return rubato::Class{.type = payload == "long" ? 7u : 3u, .is_long = payload == "long"};
  };
  app.handle = [&overtaken](Request& request) {
    if (request.type() == 7) checkpoints_until([&overtaken] { return overtaken.load(); });
    if (request.type() == 3) overtaken = true;
    request.reply(std::to_string(request.type()));
  };
  Options options = loopback();
  options.classify = rubato::Classify::kFeedback;
  Running server(std::move(app), options);
  LoopbackClient slow(*server);
  LoopbackClient quick(*server);
  ASSERT_TRUE(slow.send("long\n"));
  EXPECT_EQ(call(quick, "short\n", 2), "3\n");
  EXPECT_EQ(slow.receive(2), "7\n");
  EXPECT_EQ(server->stats().long_by_feedback, 1u);
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server->times(7).latency.count, 1u);
  EXPECT_GT(server->times(7).service.max_ns, 0);
}

struct Counter final : rubato::Connection {
  explicit Counter(std::atomic<int>& open) : open_(open) { ++open_; }
  ~Counter() override { --open_; }
  int requests = 0;

 private:
  std::atomic<int>& open_;
};

TEST(Connections, have_a_state_of_their_own) {
  std::atomic<int> open{0};
  {
    Application app;
    app.framing = Framing::kLines;
    app.connected = [&open](uint64_t, std::string_view) {
      return std::make_unique<Counter>(open);
    };
    app.handle = [](Request& request) {
      request.reply(std::to_string(++request.connection<Counter>()->requests));
    };
    Running server(std::move(app));
    LoopbackClient a(*server);
    LoopbackClient b(*server);
    EXPECT_EQ(call(a, "\n\n", 4), "1\n2\n");
    EXPECT_EQ(call(b, "\n", 2), "1\n");
    EXPECT_EQ(open, 2);
  }
  EXPECT_EQ(open, 0);
}

TEST(Loop, receives_and_sends_as_in_algorithm_5_1) {
  Application app;
  app.framing = Framing::kLines;
  std::atomic<int> overtaken{0};
  app.loop = [&overtaken] {
    while (Request request = rubato::recv()) {
      if (request.payload() == "long") {
        const rubato::LongSection section;
        checkpoints_until([&overtaken] { return overtaken.load() > 0; });
      } else {
        ++overtaken;
      }
      request.reply(request.payload());
      EXPECT_TRUE(rubato::send(request));
    }
  };
  Running server(std::move(app));
  LoopbackClient slow(*server);
  LoopbackClient quick(*server);
  ASSERT_TRUE(slow.send("long\n"));
  EXPECT_EQ(call(quick, "short\n", 6), "short\n");
  EXPECT_EQ(slow.receive(5), "long\n");
  EXPECT_TRUE(server.stop());
}

TEST(Loop, that_throws_or_returns_or_forgets_fails_a_request_and_goes_on) {
  Application app;
  app.framing = Framing::kLines;
  app.loop = [] {
    while (Request request = rubato::recv()) {
      if (request.payload() == "throw") throw std::runtime_error("no");
      if (request.payload() == "return") return;
      if (request.payload() == "forget") continue;
      request.reply(request.payload());
      rubato::send(request);
    }
  };
  Running server(std::move(app));
  for (const char* word : {"throw\n", "return\n", "forget\nx\n"}) {
    LoopbackClient client(*server);
    EXPECT_EQ(call(client, word, 100), "refused: the request failed\n") << word;
  }
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "ok\n", 3), "ok\n");
  EXPECT_EQ(server->stats().failed, 3u);
  EXPECT_TRUE(server.stop());
}

struct Doubling {
  rubato::Status init() {
    factor = 2;
    return rubato::Done{};
  }
  int process(const Request& request) const {
    return factor * std::stoi(std::string(request.payload()));
  }
  void build_response(Request& request, int result) const { request.reply(std::to_string(result)); }
  int factor = 0;
};

TEST(ThreeHooks, run_in_order_and_hand_the_result_on) {
  Doubling doubling;
  Application app = rubato::hooks(doubling);
  app.framing = Framing::kLines;
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "21\n", 3), "42\n");
  EXPECT_EQ(call(client, "not a number\n", 100), "refused: the request failed\n");
}

TEST(ThreeHooks, init_that_fails_keeps_the_server_from_running) {
  Application app = echo(Framing::kLines);
  app.init = []() -> rubato::Status { return rubato::Error{"no data"}; };
  auto server = Server::create(loopback(), std::move(app));
  ASSERT_TRUE(server.ok());
  const auto drained = server->run();
  ASSERT_FALSE(drained.ok());
  EXPECT_EQ(drained.error(), "init: no data");
}

TEST(NoPreempt, holds_off_a_preemption_until_it_ends) {
  std::atomic<bool> inside{false};
  std::atomic<bool> overtaken{false};
  Application app = echo(Framing::kLines);
  app.handle = [&](Request& request) {
    if (request.payload() == "long") {
      const rubato::LongSection section;
      {
        const rubato::NoPreempt whole;
        inside = true;
        for (int i = 0; i < 1'000'000; ++i) rubato::checkpoint();
        EXPECT_FALSE(overtaken);
      }
      checkpoints_until([&] { return overtaken.load(); });
    } else {
      overtaken = true;
    }
    request.reply(request.payload());
  };
  Running server(std::move(app));
  LoopbackClient slow(*server);
  LoopbackClient quick(*server);
  ASSERT_TRUE(slow.send("long\n"));
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(call(quick, "short\n", 6), "short\n");
  EXPECT_EQ(slow.receive(5), "long\n");
}

TEST(FiberLocal, every_request_starts_afresh) {
  static rubato::fiber_local<std::string> word("fresh");
  Application app = echo(Framing::kLines);
  app.handle = [&](Request& request) {
    request.reply(*word);
    *word = request.payload();
    rubato::checkpoint();
    request.reply(*word);
    request.reply(std::to_string(word->size()));
  };
  Running server(std::move(app));
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "one\n", 10), "freshone3\n");
  EXPECT_EQ(call(client, "three\n", 12), "freshthree5\n");
  word->append("er");
  EXPECT_EQ(*word, "fresher");
}

TEST(Errors, name_the_option_and_what_it_takes) {
  const auto with = [](auto&& change) {
    Options options = loopback();
    change(options);
    return error_of(options, echo(Framing::kLines));
  };
  EXPECT_EQ(with([](Options&) {}), "");
  EXPECT_EQ(with([](Options& o) { o.workers = 257; }),
            "workers: takes a whole number from 0 to 256, not '257'");
  EXPECT_EQ(with([](Options& o) { o.workers = 0; }), "");
  EXPECT_EQ(with([](Options& o) { o.port = 70000; }),
            "port: takes a whole number from 0 to 65535, not '70000'");
  EXPECT_EQ(with([](Options& o) { o.preempt = static_cast<rubato::Preempt>(99); }),
            "preempt: takes auto, none, checkpoint, signal, timer, uintr or kmod, not '99'");
  EXPECT_EQ(with([](Options& o) { o.preempt = rubato::Preempt::kCheckpoint; }), "");
  const auto names = [](const std::string& error, const char* what) {
    return error.find(what) != std::string::npos;
  };
  EXPECT_TRUE(names(with([](Options& o) { o.policy = "magic"; }), "policy: 'magic'"));
  EXPECT_TRUE(names(with([](Options& o) { o.set["speed"] = "1"; }), "speed"));
  EXPECT_EQ(with([](Options& o) { o.overload = static_cast<rubato::Overload>(7); }),
            "overload: takes none, aqm, credits, gradient, cinnamon, dagor or gradient2, not '7'");
  EXPECT_EQ(with([](Options& o) { o.overload = rubato::Overload::kCredits; }),
            "overload: credits needs RUBATO_FRAMING_RPC");
  EXPECT_TRUE(names(with([](Options& o) { o.target_delay = {}; }),
                    "target_delay: takes a time from 1us"));
  EXPECT_EQ(with([](Options& o) { o.target_delay_long = std::chrono::milliseconds(50); }), "");
  EXPECT_TRUE(names(with([](Options& o) { o.target_delay_long = std::chrono::nanoseconds(-1); }),
                    "target_delay_long: takes a time from 0ns"));
  EXPECT_EQ(with([](Options& o) { o.guaranteed_cores = 2; }),
            "guaranteed_cores: takes 1 .. the number of workers, 1; got 2");
  EXPECT_TRUE(names(with([](Options& o) { o.workers = o.guaranteed_cores = 2; }),
                    "guaranteed_cores: needs cores with an allocator"));
  EXPECT_TRUE(names(with([](Options& o) { o.cores = "magic"; }), "cores: 'magic'"));
  EXPECT_TRUE(names(with([](Options& o) { o.cores_set["speed"] = "1"; }), "cores_set: needs"));
  EXPECT_EQ(with([](Options& o) { o.agent_port = 70000; }),
            "agent_port: takes none, or a whole number from 0 to 65535, not '70000'");
  EXPECT_TRUE(names(error_of(loopback(), Application{}), "handle, loop"));
  EXPECT_TRUE(names(error_of(loopback(), echo(Framing::kUser)), "frame:"));
}

TEST(Errors, a_text_with_a_null_character_is_refused_by_name) {
  Options options = loopback();
  options.bind = std::string("127.0.0.1\0.a", 12);
  EXPECT_EQ(error_of(options, echo(Framing::kLines)), "bind: takes a text without null characters");
  Application app = echo(Framing::kLines);
  app.type_names = {std::string(1, '\0')};
  EXPECT_EQ(error_of(loopback(), std::move(app)),
            "type_names: takes a text without null characters");
}

TEST(Errors, names_of_types_that_are_not_there_are_refused) {
  rubato_application app;
  rubato_application_init(&app, sizeof app);
  app.handle = [](void*, rubato_request*) -> int { return RUBATO_OK; };
  app.type_names_count = 2;
  rubato_options options;
  rubato_options_init(&options, sizeof options);
  rubato_error error{};
  EXPECT_EQ(rubato_server_create(&options, &app, &error), nullptr);
  EXPECT_STREQ(error.text, "type_names: null, with a count of 2");
}

TEST(Errors, a_server_runs_once) {
  auto server = Server::create(loopback(), echo(Framing::kLines));
  ASSERT_TRUE(server.ok());
  server->stop();
  const auto first = server->run();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(*first);
  EXPECT_FALSE(server->run().ok());
}

// All that is answered on a port to what is said there.
std::string hear(uint32_t port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t n = 0; (n = read(fd, part, sizeof part)) > 0;) {
    answer.append(part, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

// The answer to GET of this path on the metrics port.
std::string http_get(uint32_t port, const std::string& path) {
  return hear(port, "GET " + path + " HTTP/1.0\r\n\r\n");
}

// Two pipelines that keep each other waiting for longer than the runtime is patient.
TEST(Overload, who_waited_too_long_is_refused_in_the_words_of_the_application) {
  Application app;
  app.framing = Framing::kUser;
  app.frame = [](std::string_view) { return rubato::Frame::complete(1); };
  app.handle = [](Request& request) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < end) continue;
    request.reply("ok");
  };
  std::atomic<bool> reported_when{true};
  app.refuse = [&reported_when](Request& request, rubato::Refusal reason) {
    if (reason != rubato::Refusal::kOverload || request.retry_after().count() <= 0) {
      reported_when = false;
    }
    request.reply("no");
  };
  Options options = loopback();
  options.policy = "fcfs";
  options.overload = rubato::Overload::kAqm;
  options.target_delay = std::chrono::microseconds(1);
  Running server(std::move(app), options);
  LoopbackClient one(*server);
  LoopbackClient other(*server);
  constexpr size_t kRequests = 300;
  ASSERT_TRUE(one.send(std::string(kRequests, '.')));
  ASSERT_TRUE(other.send(std::string(kRequests, '.')));
  const std::string replies = one.receive(2 * kRequests) + other.receive(2 * kRequests);
  ASSERT_EQ(replies.size(), 4 * kRequests);
  uint64_t refused = 0;
  for (size_t i = 0; i < replies.size(); i += 2) refused += replies[i] == 'n' ? 1u : 0u;
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(server->stats().refused, refused);
  EXPECT_TRUE(reported_when);
}

TEST(Agent, answers_load_balancers) {
  Options options = loopback();
  options.agent_port = 0;
  Running server(echo(Framing::kLines), options);
  while (server->agent_port() == 0) std::this_thread::yield();
  while (!server->is_serving()) std::this_thread::yield();
  EXPECT_EQ(hear(server->agent_port(), "\n"), "up ready 100%\n");
}

TEST(Cores, are_given_by_the_allocator_that_is_named) {
  Options options = loopback(2);
  options.cores = "reactive";
  options.guaranteed_cores = 1;
  options.metrics_port = 0;
  Running server(echo(Framing::kLines), options);
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "a\n", 2), "a\n");
  const std::string answer = http_get(server->metrics_port(), "/metrics");
  EXPECT_NE(answer.find("rubato_cores_granted"), std::string::npos) << answer;
}

TEST(Metrics, show_requests_by_the_names_of_their_types) {
  Application app = echo(Framing::kLines);
  app.classify = [](std::string_view) { return rubato::Class{.type = 1}; };
  app.type_names = {"other", "mine"};
  Options options = loopback();
  options.metrics_port = 0;
  Running server(std::move(app), options);
  LoopbackClient client(*server);
  EXPECT_EQ(call(client, "a\n", 2), "a\n");
  const std::string answer = http_get(server->metrics_port(), "/metrics");
  EXPECT_NE(answer.find("rubato_requests_total 1"), std::string::npos) << answer;
  EXPECT_NE(answer.find("type=\"mine\""), std::string::npos);
  EXPECT_NE(http_get(server->metrics_port(), "/readyz").find("200"), std::string::npos);
  const std::string state = http_get(server->metrics_port(), "/state");
  EXPECT_NE(state.find("\"name\":\"mine\",\"finished\":1,"), std::string::npos) << state;
}

TEST(VersionedStructs, of_an_older_program_are_filled_up_and_of_a_newer_one_looked_at) {
  struct Newer {
    rubato_options options;
    uint64_t unknown;
  } newer{};
  rubato_options_init(&newer.options, sizeof newer);
  newer.options.transport = RUBATO_TRANSPORT_LOOPBACK;
  rubato_application app;
  rubato_application_init(&app, sizeof app);
  app.handle = [](void*, rubato_request*) -> int { return RUBATO_OK; };
  rubato_error error{};
  rubato_server* server = rubato_server_create(&newer.options, &app, &error);
  EXPECT_NE(server, nullptr) << error.text;
  rubato_server_destroy(server);
  newer.unknown = 1;
  EXPECT_EQ(rubato_server_create(&newer.options, &app, &error), nullptr);
  EXPECT_STREQ(error.text, "options: made for a newer library");

  rubato_options older = newer.options;
  older.struct_size = offsetof(rubato_options, bind);
  older.bind = nullptr;
  server = rubato_server_create(&older, &app, &error);
  EXPECT_NE(server, nullptr) << error.text;
  rubato_server_destroy(server);
}

TEST(OffTheWorkers, feedback_does_nothing) {
  rubato::long_begin();
  rubato::long_end();
  rubato::checkpoint();
  const rubato::NoPreempt whole;
  EXPECT_FALSE(rubato::recv());
  EXPECT_FALSE(rubato::send(Request()));
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Traces, have_what_the_workers_do_while_that_is_wanted) {
  const auto file = std::filesystem::path(testing::TempDir()) /
                    ("server-trace-" + std::to_string(::getpid()) + ".json");
  Options options = loopback();
  options.trace_file = file;
  Application app = echo(Framing::kLines);
  app.type_names = {"first", "second", "third"};
  app.classify = [](std::string_view payload) {
    return rubato::Class{.type = static_cast<uint32_t>(payload[0] - '1')};
  };
  std::atomic<bool> refused_on_a_worker = false;
  Server* on_worker = nullptr;
  app.handle = [&](Request& request) {
    refused_on_a_worker = !on_worker->trace(false).ok();
    request.reply(request.payload());
  };
  Running server(std::move(app), options);
  on_worker = &*server;
  const auto serve = [&server](std::string_view line) {
    LoopbackClient client(*server);
    const uint64_t before = server->stats().requests;
    EXPECT_EQ(call(client, line, 2), line);
    while (server->stats().requests == before) std::this_thread::yield();
  };
  serve("1\n");
  EXPECT_TRUE(refused_on_a_worker);
  ASSERT_TRUE(server->trace(false).ok());
  EXPECT_NE(text_of(file).find("\"first\""), std::string::npos);
  serve("2\n");  // in no trace
  ASSERT_TRUE(server->trace(true).ok());
  serve("3\n");
  EXPECT_TRUE(server.stop());
  const std::string last = text_of(file);
  EXPECT_NE(last.find("\"third\""), std::string::npos);
  EXPECT_EQ(last.find("\"first\""), std::string::npos);
  EXPECT_EQ(last.find("\"second\""), std::string::npos);
  EXPECT_EQ(last.substr(last.size() - 2), "}\n");
  std::filesystem::remove(file);
}

TEST(Traces, that_cannot_be_are_refused_in_one_line) {
  auto without = Server::create(loopback(), echo(Framing::kLines));
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->trace(true).error(), "trace_file: the server was created without one");
  Options options = loopback();
  options.trace_file = "/no/such/folder/trace.json";
  auto nowhere = Server::create(options, echo(Framing::kLines));
  ASSERT_TRUE(nowhere.ok());
  EXPECT_EQ(nowhere->run().error(),
            "trace_file: cannot write '/no/such/folder/trace.json': No such file or directory");
  options.trace_events = 0;
  EXPECT_NE(error_of(options, echo(Framing::kLines)).find("trace_events: "), std::string::npos);
}

}  // namespace
