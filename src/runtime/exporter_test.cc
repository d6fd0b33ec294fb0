// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>

namespace rubato {
namespace {

std::unique_ptr<Exporter> exporter(bool ready = true) {
  auto started = Exporter::start(
      "127.0.0.1", 0,
      {[] { return std::string("# EOF\n"); }, [ready] { return ready; },
       [] { return std::string("get owns worker 0\n"); }});
  EXPECT_TRUE(started.ok()) << started.error();
  return std::move(started).value();
}

Fd connect_to(const Exporter& server) {
  const Result<SocketAddress> to = resolve("127.0.0.1", server.port());
  Fd fd(::socket(to.value().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.value().storage),
                      to.value().length),
            0);
  return fd;
}

std::string ask(const Exporter& server, std::string_view request) {
  const Fd fd = connect_to(server);
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string reply;
  char chunk[1024];
  for (ssize_t n = 0; (n = ::recv(fd.get(), chunk, sizeof chunk, 0)) > 0;) {
    reply.append(chunk, static_cast<size_t>(n));
  }
  return reply;
}

std::string get(const Exporter& server, const std::string& path) {
  return ask(server, "GET " + path + " HTTP/1.1\r\n\r\n");
}

TEST(Exporter, answers_its_three_paths_and_nothing_else) {
  const auto server = exporter();
  EXPECT_TRUE(get(*server, "/plan").ends_with("get owns worker 0\n"));
  EXPECT_TRUE(get(*server, "/metrics").ends_with("# EOF\n"));
  EXPECT_TRUE(get(*server, "/healthz").ends_with("ok\n"));
  EXPECT_TRUE(get(*server, "/readyz?x=1").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(get(*server, "/metricsandmore").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask(*server, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

TEST(Exporter, is_not_ready_while_its_server_is_not) {
  EXPECT_TRUE(get(*exporter(false), "/readyz").starts_with("HTTP/1.1 503"));
}

TEST(Exporter, a_client_that_sends_byte_by_byte_does_not_keep_the_others_out) {
  const auto server = exporter();
  const Fd slow = connect_to(*server);
  ASSERT_EQ(::send(slow.get(), "G", 1, MSG_NOSIGNAL), 1);
  std::atomic<bool> done{false};
  std::thread trickle([&] {
    // Were each byte given a time of its own, this would go on for longer than the test may take.
    while (!done.load() && ::send(slow.get(), "E", 1, MSG_NOSIGNAL) == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_TRUE(get(*server, "/healthz").ends_with("ok\n"));
  done.store(true);
  trickle.join();
}

TEST(Exporter, says_which_address_it_cannot_have) {
  const auto first = exporter();
  const auto second = Exporter::start("127.0.0.1", first->port(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().find("metrics port: cannot listen on 127.0.0.1:"), std::string::npos);
}

}  // namespace
}  // namespace rubato
