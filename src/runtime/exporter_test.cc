// SPDX-License-Identifier: Apache-2.0
#include "runtime/exporter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rubato {
namespace {

// More bytes than the buffers of two sockets take.
constexpr size_t kPlanBytes = 16 << 20;

std::unique_ptr<Exporter> exporter(bool ready = true, Exporter::Limits limits = {}) {
  auto started = Exporter::start("127.0.0.1", 0,
                                 {[](OpenMetrics&) {}, [ready] { return ready; },
                                  [] { return std::string(kPlanBytes, '.') + "\n"; }},
                                 limits);
  EXPECT_TRUE(started.ok()) << started.error();
  return std::move(started).value();
}

// An exporter whose clients have all the time that a test may take.
std::unique_ptr<Exporter> patient_exporter(size_t connections = 256) {
  return exporter(true, {connections, Nanos::seconds(3600)});
}

Fd connect_to(const Exporter& server) {
  const Result<SocketAddress> to = resolve("127.0.0.1", server.port());
  Fd fd(::socket(to.value().storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.value().storage),
                      to.value().length),
            0);
  return fd;
}

void send_all(const Fd& fd, std::string_view request) {
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
}

std::string receive_all(const Fd& fd) {
  std::string reply;
  std::array<char, 65536> chunk;
  for (ssize_t n = 0; (n = ::recv(fd.get(), chunk.data(), chunk.size(), 0)) > 0;) {
    reply.append(chunk.data(), static_cast<size_t>(n));
  }
  return reply;
}

std::string ask(const Exporter& server, std::string_view request) {
  const Fd fd = connect_to(server);
  send_all(fd, request);
  return receive_all(fd);
}

// The other side has neither closed nor sent anything.
bool is_open(const Fd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

// Clients that send nothing, or only a part of a request.
std::vector<Fd> silent_clients(const Exporter& server, size_t count) {
  std::vector<Fd> clients;
  for (size_t i = 0; i < count; ++i) {
    clients.push_back(connect_to(server));
    if (i % 2 == 1) send_all(clients.back(), "GET /healthz HTT");
  }
  return clients;
}

std::string get(const Exporter& server, const std::string& path) {
  return ask(server, "GET " + path + " HTTP/1.1\r\n\r\n");
}

TEST(Exporter, a_page_is_at_the_root_if_there_is_one) {
  const auto started = Exporter::start("127.0.0.1", 0,
                                       {[](OpenMetrics&) {}, [] { return true; },
                                        [] { return std::string(); }, {},
                                        [] { return std::string("<!doctype html>"); }});
  ASSERT_TRUE(started.ok()) << started.error();
  const std::string reply = ask(*started.value(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_NE(reply.find("Content-Type: text/html"), std::string::npos);
  EXPECT_TRUE(reply.ends_with("\r\n\r\n<!doctype html>"));
  EXPECT_EQ(get(*started.value(), "/top"), reply);
  EXPECT_TRUE(ask(*exporter(), "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
}

TEST(Exporter, tells_its_state_if_it_has_one) {
  const auto started = Exporter::start("127.0.0.1", 0,
                                       {[](OpenMetrics&) {}, [] { return true; },
                                        [] { return std::string(); }, {}, {},
                                        [] { return std::string("{}"); }});
  ASSERT_TRUE(started.ok()) << started.error();
  const std::string reply = get(*started.value(), "/state");
  EXPECT_NE(reply.find("Content-Type: application/json"), std::string::npos);
  EXPECT_TRUE(reply.ends_with("\r\n\r\n{}"));
  EXPECT_TRUE(get(*exporter(), "/state").starts_with("HTTP/1.1 404"));
}

TEST(Exporter, answers_its_three_paths_and_nothing_else) {
  const auto server = exporter();
  EXPECT_TRUE(get(*server, "/plan").ends_with("...\n"));
  EXPECT_NE(get(*server, "/metrics").find("\n# TYPE rubato_"), std::string::npos);
  EXPECT_TRUE(get(*server, "/healthz").ends_with("ok\n"));
  EXPECT_TRUE(get(*server, "/readyz?x=1").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(get(*server, "/metricsandmore").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask(*server, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

TEST(Exporter, is_not_ready_while_its_server_is_not) {
  EXPECT_TRUE(get(*exporter(false), "/readyz").starts_with("HTTP/1.1 503"));
}

TEST(Exporter, silent_clients_keep_nobody_waiting) {
  for (const size_t count : {10u, 200u}) {
    const auto server = patient_exporter();
    const std::vector<Fd> silent = silent_clients(*server, count);
    EXPECT_TRUE(get(*server, "/healthz").ends_with("ok\n"));
    EXPECT_TRUE(std::all_of(silent.begin(), silent.end(), is_open));
  }
}

TEST(Exporter, a_client_that_was_silent_is_answered_when_it_asks) {
  const auto server = patient_exporter();
  const std::vector<Fd> silent = silent_clients(*server, 2);
  send_all(silent[1], "P/1.1\r\n\r\n");
  EXPECT_TRUE(receive_all(silent[1]).ends_with("ok\n"));
  send_all(silent[0], "GET /healthz HTTP/1.1\r\n");
  ::shutdown(silent[0].get(), SHUT_WR);  // and will send no more
  EXPECT_TRUE(receive_all(silent[0]).ends_with("ok\n"));
}

TEST(Exporter, a_client_that_does_not_read_keeps_nobody_waiting_and_gets_all_in_the_end) {
  const auto server = patient_exporter();
  const Fd slow = connect_to(*server);
  send_all(slow, "GET /plan HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(get(*server, "/healthz").ends_with("ok\n"));
  EXPECT_GT(receive_all(slow).size(), kPlanBytes);
}

TEST(Exporter, one_too_many_takes_the_place_of_the_oldest_silent_one) {
  const auto server = patient_exporter(3);
  const Fd reading = connect_to(*server);
  send_all(reading, "GET /plan HTTP/1.1\r\n\r\n");
  char first = 0;
  ASSERT_EQ(::recv(reading.get(), &first, 1, MSG_PEEK), 1);
  const std::vector<Fd> silent = silent_clients(*server, 3);
  EXPECT_EQ(receive_all(silent[0]), "");
  EXPECT_TRUE(is_open(silent[1]));
  EXPECT_TRUE(is_open(silent[2]));
  // One more if this asks only after it has been accepted.
  const std::string reported = get(*server, "/metrics");
  EXPECT_NE(reported.find("rubato_metrics_connections_closed_total{reason=\"displaced\"} "),
            std::string::npos) << reported;
  EXPECT_EQ(reported.find("displaced\"} 0\n"), std::string::npos) << reported;
  EXPECT_GT(receive_all(reading).size(), kPlanBytes);
}

TEST(Exporter, a_client_that_is_out_of_time_is_closed_and_counted) {
  const auto server = exporter(true, {.connections = 8, .patience = Nanos::millis(1)});
  const std::vector<Fd> silent = silent_clients(*server, 2);
  for (const Fd& client : silent) EXPECT_EQ(receive_all(client), "");
  // Only what is there when the connection is accepted is sure to be in time.
  std::string reported;
  for (int i = 0; i < 1000 && reported.empty(); ++i) reported = get(*server, "/metrics");
  ASSERT_NE(reported, "");
  EXPECT_EQ(reported.find("reason=\"late\"} 0\n"), std::string::npos) << reported;
}

TEST(Exporter, says_which_address_it_cannot_have) {
  const auto first = exporter();
  const auto second = Exporter::start("127.0.0.1", first->port(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().find("metrics port: cannot listen on 127.0.0.1:"), std::string::npos);
}

TEST(Exporter, metrics_are_open_metrics_only_for_who_accepts_them) {
  const auto server = exporter();
  const auto asked = [&](const std::string& headers) {
    const Fd client = connect_to(*server);
    send_all(client, "GET /metrics HTTP/1.1\r\n" + headers + "\r\n");
    return receive_all(client);
  };
  const std::string older = asked("");
  EXPECT_NE(older.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << older;
  EXPECT_NE(older.find("# TYPE rubato_metrics_connections_closed_total counter\n"),
            std::string::npos);
  EXPECT_EQ(older.find("# EOF"), std::string::npos);
  const std::string newer =
      asked("aCCept: text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0\r\n");
  EXPECT_NE(newer.find("Content-Type: application/openmetrics-text; version=1.0.0"),
            std::string::npos);
  EXPECT_TRUE(newer.ends_with("# EOF\n")) << newer;
  EXPECT_EQ(asked("X: 1\r\nAccept: */*\r\n").find("# EOF"), std::string::npos);
}

// An exporter that sets the options of a map, unless their value is "bad".
class SettingTest : public ::testing::Test {
 protected:
  std::string set(const std::string& query, const std::string& header) {
    return ask(*exporter_, "POST /set?" + query + " HTTP/1.1\r\n" + header + "\r\n");
  }

  static constexpr const char* kRight = "Authorization: Bearer a-token-of-some-length\r\n";
  std::map<std::string, std::string> options_;
  std::string peer_;
  std::latch go_on_{1};
  std::unique_ptr<Exporter> exporter_ = [this] {
    Exporter::Sources sources{[](OpenMetrics&) {}, [] { return true; },
                              [] { return std::string(); }};
    sources.setter = {[] { return std::string("a-token-of-some-length"); },
                      [this](const Exporter::Setting& wanted) -> Status {
                        if (wanted.value == "slow") go_on_.wait();
                        if (wanted.value == "bad") return Error{wanted.name + ": takes no bad"};
                        options_[wanted.name] = wanted.value;
                        peer_ = wanted.peer;
                        return Done{};
                      }};
    return std::move(Exporter::start("127.0.0.1", 0, std::move(sources))).value();
  }();
};

TEST_F(SettingTest, who_knows_the_token_sets_options) {
  EXPECT_TRUE(set("policy=ps", kRight).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(set("se%74=quantum%3d5us%20x", "authorization: bearer a-token-of-some-length\r\n")
                  .starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(options_, (std::map<std::string, std::string>{{"policy", "ps"},
                                                          {"set", "quantum=5us x"}}));
  EXPECT_TRUE(peer_.starts_with("127.0.0.1:")) << peer_;
  const std::string refused = set("policy=bad", kRight);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(refused.ends_with("\r\n\r\npolicy: takes no bad\n"));
}

TEST_F(SettingTest, a_set_that_waits_holds_up_nobody_else) {
  const Fd slow = connect_to(*exporter_), next = connect_to(*exporter_);
  const auto post = [](const char* query) {
    return "POST /set?" + std::string(query) + " HTTP/1.1\r\n" + kRight + "\r\n";
  };
  send_all(slow, post("a=slow"));
  EXPECT_TRUE(get(*exporter_, "/healthz").ends_with("ok\n"));
  send_all(next, post("b=1"));
  EXPECT_TRUE(get(*exporter_, "/healthz").ends_with("ok\n"));
  EXPECT_TRUE(is_open(slow));
  EXPECT_TRUE(is_open(next));
  go_on_.count_down();
  EXPECT_TRUE(receive_all(slow).ends_with("OK\n"));
  EXPECT_TRUE(receive_all(next).ends_with("OK\n"));
  EXPECT_EQ(options_, (std::map<std::string, std::string>{{"a", "slow"}, {"b", "1"}}));
}

TEST_F(SettingTest, pages_of_other_sites_do_not) {
  const auto from = [this](const std::string& origin) {
    return set("policy=ps",
               std::string(kRight) + "Host: Here:6402\r\nOrigin: " + origin + "\r\n");
  };
  for (const char* origin : {"null", "http://there:6402", "http://here", "http://here:64021",
                             "http://there/here:6402", "here:6402"}) {
    const std::string reply = from(origin);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 403 ")) << origin;
    EXPECT_EQ(reply.find("Access-Control"), std::string::npos);
  }
  EXPECT_TRUE(options_.empty());
  EXPECT_TRUE(from("http://here:6402").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(from("https://HERE:6402").starts_with("HTTP/1.1 200 "));
  // Before it sends such a header, a browser asks whether it may.
  const std::string leave = ask(*exporter_, "OPTIONS /set?policy=ps HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(leave.starts_with("HTTP/1.1 405 ")) << leave;
  EXPECT_EQ(leave.find("Access-Control"), std::string::npos);
}

TEST_F(SettingTest, nobody_else_does) {
  for (const char* header : {"", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n",
                             "Authorization: Bearer a-token-of-some-lengt\r\n",
                             "Authorization: Bearer a-token-of-some-lengthy\r\n",
                             "Authorization: Basic a-token-of-some-length\r\n",
                             "X-Authorization: Bearer a-token-of-some-length\r\n"}) {
    EXPECT_TRUE(set("policy=ps", header).starts_with("HTTP/1.1 401 ")) << header;
  }
  EXPECT_NE(get(*exporter_, "/metrics").find("rubato_metrics_sets_denied_total 7\n"),
            std::string::npos);
  for (const char* query : {"", "policy", "pol%icy=x", "policy=%1", "policy=%g0",
                            "policy=ps&drain-limit=1", "set=a=1+b=2"}) {
    EXPECT_TRUE(set(query, kRight).starts_with("HTTP/1.1 400 ")) << query;
  }
  const std::string with_body =
      ask(*exporter_, "POST /set HTTP/1.1\r\n" + std::string(kRight) +
                          "Content-Length: 9\r\n\r\npolicy=ps");
  EXPECT_TRUE(with_body.starts_with("HTTP/1.1 400 ")) << with_body;
  EXPECT_TRUE(with_body.ends_with("takes POST /set?NAME=VALUE, without a body\n")) << with_body;
  EXPECT_TRUE(set("policy=ps", "X: " + std::string(8000, 'x') + "\r\n" + kRight)
                  .starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(get(*exporter_, "/set?policy=ps").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(options_.empty());
  const auto read_only = patient_exporter();
  const std::string reply = ask(*read_only, "POST /set?policy=ps HTTP/1.1\r\n" +
                                                std::string(kRight) + "\r\n");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 403 "));
}

}  // namespace
}  // namespace rubato
