// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio over an executor: post, strands, timers, coroutines, and an HTTP server by Beast in
// which a long request blocks no short one.
#include <utility>  // Asio 1.74 forgets it

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <rubato/asio.hpp>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using rubato::AsioContext;
using rubato::Executor;

static_assert(asio::execution::is_executor<AsioContext::executor_type>::value);

Executor make(uint32_t workers) {
  rubato::ExecutorOptions options;
  options.scheduler.workers = workers;
  auto executor = Executor::create(options);
  EXPECT_TRUE(executor.ok());
  return std::move(*executor);
}

// True on a worker of any executor.
bool in_task() { return rubato::this_task::trace() != 0; }

TEST(Asio, handlers_run_as_tasks_with_the_attributes_of_their_executor) {
  Executor executor = make(2);
  AsioContext context(executor);
  const auto ours = context.get_executor({.type = 3, .trace = 9});
  EXPECT_TRUE(asio::post(ours, asio::use_future([] { return in_task(); })).get());
  EXPECT_TRUE(asio::dispatch(ours, asio::use_future([] { return in_task(); })).get());
  const asio::any_io_executor any = ours;
  EXPECT_TRUE(asio::post(any, asio::use_future([] { return in_task(); })).get());
  asio::io_context other;
  std::promise<bool> bound;
  asio::post(other, asio::bind_executor(ours, [&] { bound.set_value(in_task()); }));
  other.run();
  EXPECT_TRUE(bound.get_future().get());
  executor.stop();
  EXPECT_TRUE(executor.join());
  EXPECT_EQ(executor.times(3).latency.count, 4u);
}

TEST(Asio, a_strand_runs_one_handler_after_the_other_even_if_they_are_suspended) {
  constexpr int kHandlers = 200;
  Executor executor = make(2);
  AsioContext context(executor);
  auto strand = asio::make_strand(context.get_executor());
  std::atomic<int> inside{0};
  int together = 0;
  std::vector<int> order;
  std::promise<void> last;
  for (int i = 0; i < kHandlers; ++i) {
    asio::post(strand, [&, i] {
      if (++inside > 1) ++together;
      for (int step = 0; step < 1000; ++step) rubato::checkpoint();
      order.push_back(i);
      --inside;
      if (order.size() == kHandlers) last.set_value();
    });
  }
  last.get_future().get();
  executor.stop();  // the strand has an end of its own after its last handler
  EXPECT_TRUE(executor.join());
  EXPECT_EQ(together, 0);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Asio, timers_and_coroutines) {
  Executor executor = make(1);
  AsioContext context(executor);
  const auto ours = context.get_executor({.trace = 9, .detached = true});
  const auto waits = [&]() -> asio::awaitable<bool> {
    asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::milliseconds(1));
    co_await timer.async_wait(asio::use_awaitable);
    co_return in_task();
  };
  EXPECT_TRUE(asio::co_spawn(ours, waits, asio::use_future).get());
}

// A coroutine whose handler comes when the executor has stopped, here that of a timer, is unwound
// by way of the executor; it may hold sockets, which need the context.
TEST(Asio, a_coroutine_that_a_stop_has_left_ends_before_its_context) {
  Executor executor = make(1);
  int frames = 0;
  struct Frame {
    explicit Frame(int& frames_now) : count(frames_now) { ++count; }
    ~Frame() { --count; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    int& count;
  };
  {
    AsioContext context(executor);
    std::promise<void> waits;
    const auto wait_for_a_day = [&]() -> asio::awaitable<void> {
      const Frame frame(frames);
      tcp::socket socket(co_await asio::this_coro::executor, tcp::v4());
      asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::hours(24));
      waits.set_value();
      co_await timer.async_wait(asio::use_awaitable);
    };
    asio::co_spawn(context.get_executor(), wait_for_a_day, asio::detached);
    waits.get_future().get();
    executor.stop();
    EXPECT_TRUE(executor.join());
    EXPECT_EQ(frames, 1);
  }
  EXPECT_EQ(frames, 0);
}

// GET /long takes as long as `goes_on` is true; everything else is answered at once.
class HttpServer {
 public:
  explicit HttpServer(AsioContext& context)
      : acceptor_(context.get_executor(), {asio::ip::address_v4::loopback(), 0}) {
    asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  // After the clients have left. Coroutines may be left to the context.
  void close() {
    goes_on = false;
    asio::post(acceptor_.get_executor(), asio::use_future([this] { acceptor_.close(); })).get();
  }

  std::atomic<bool> goes_on{true};

 private:
  asio::awaitable<void> accept() {
    boost::system::error_code error;
    for (;;) {
      auto socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), asio::detached);
    }
  }
  asio::awaitable<void> serve(tcp::socket socket) {
    beast::flat_buffer buffer;
    boost::system::error_code error;
    for (;;) {
      http::request<http::string_body> request;
      co_await http::async_read(socket, buffer, request,
                                asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      const bool is_long = request.target().starts_with("/long");
      while (is_long && goes_on) rubato::checkpoint();
      http::response<http::string_body> response(http::status::ok, request.version());
      response.body() = std::string(request.target());
      response.prepare_payload();
      co_await http::async_write(socket, response,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
    }
  }

  tcp::acceptor acceptor_;
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port) : stream_(io_) {
    stream_.connect({asio::ip::address_v4::loopback(), port});
  }
  void send(const std::string& target) {
    http::request<http::empty_body> request(http::verb::get, target, 11);
    http::write(stream_, request);
  }
  std::string receive() {
    http::response<http::string_body> response;
    http::read(stream_, buffer_, response);
    return response.body();
  }
  std::string get(const std::string& target) {
    send(target);
    return receive();
  }

 private:
  asio::io_context io_;
  tcp::socket stream_;
  beast::flat_buffer buffer_;
};

TEST(Asio, a_long_request_of_a_beast_server_blocks_no_short_one) {
  Executor executor = make(1);
  AsioContext context(executor);
  HttpServer server(context);
  {
    HttpClient slow(server.port());
    HttpClient quick(server.port());
    EXPECT_EQ(quick.get("/first"), "/first");
    slow.send("/long");
    for (int i = 0; i < 20; ++i) EXPECT_EQ(quick.get("/short"), "/short");
    server.goes_on = false;
    EXPECT_EQ(slow.receive(), "/long");
  }
  server.close();
  executor.stop();
  EXPECT_TRUE(executor.join());
}

}  // namespace
