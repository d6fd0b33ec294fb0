// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>

#include "datapath/tcp.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/time_source.h"
#include "tls/testing/certificates.h"
#include "tls/testing/tls_client.h"
#include "tls/tls_server.h"

namespace rubato {
namespace {

using testing::Certificates;
using testing::Credential;
using testing::LineProtocol;
using testing::TlsClient;
using State = Transfer::State;

std::unique_ptr<TlsServer> open_server(const TlsFiles& files) {
  auto opened = open_tls(files);
  if (!opened.ok()) ADD_FAILURE() << opened.error();
  return std::move(opened).value();
}

// A session, and a client at the other end of its socket.
struct Pair {
  Pair(TlsContext& server, const Credential* shows, int version = 0) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    socket = Fd(ends[0]);
    session = server.accept(socket.get(), &account);
    client = std::make_unique<TlsClient>(Fd(ends[1]), shows, version);
  }
  ~Pair() { session.reset(); }

  Transfer receive(size_t room = 4096) {
    std::string bytes(room, '\0');
    Instant when;
    const Transfer got = session->receive(bytes.data(), room, false, when);
    received += bytes.substr(0, got.bytes);
    return got;
  }

  // Moves so many bytes at once in both directions until none is left. Returns what the session
  // said last.
  State exchange(size_t step = SIZE_MAX) {
    State last = State::kWait;
    for (bool more = true; more;) {
      more = client->push(step);
      last = receive().state;
      more |= last == State::kMoved;
      while (client->pull(std::min<size_t>(step, 65536))) more = true;
    }
    return last;
  }

  MemoryAccount account;
  Fd socket;
  std::unique_ptr<TlsSession> session;
  std::unique_ptr<TlsClient> client;
  std::string received;
};

class TlsVersions : public ::testing::TestWithParam<int> {};

TEST_P(TlsVersions, bytes_that_come_one_by_one_are_the_same_bytes) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr, GetParam());
  pair.client->push(1);
  EXPECT_FALSE(pair.session->established());
  pair.exchange(1);
  ASSERT_TRUE(pair.session->established());
  ASSERT_TRUE(pair.client->established());
  pair.client->write("to the server");
  pair.exchange(1);
  EXPECT_EQ(pair.received, "to the server");
  EXPECT_EQ(pair.session->transmit("to the client").bytes, 13U);
  pair.exchange(1);
  EXPECT_EQ(pair.client->received(), "to the client");
  EXPECT_EQ(server->stats().handshakes, 1U);
}

INSTANTIATE_TEST_SUITE_P(Both, TlsVersions, ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION));

TEST(Tls, older_versions_are_refused) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr, TLS1_1_VERSION);
  pair.exchange();
  EXPECT_FALSE(pair.session->established());
}

TEST(Tls, more_bytes_than_there_is_room_are_kept_for_the_next_call) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.exchange();
  const std::string sent(100, 'x');
  pair.client->write(sent);
  pair.client->push();
  EXPECT_EQ(pair.receive(60).bytes, 60U);
  EXPECT_EQ(pair.receive(60).bytes, 40U);
  EXPECT_EQ(pair.receive(60).state, State::kWait);
  EXPECT_EQ(pair.received, sent);
}

TEST(Tls, a_reader_that_is_slow_gets_every_byte_though_the_buffer_moves) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.exchange();
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i) sent += std::to_string(i) + ' ';
  int waits = 0;
  for (size_t done = 0; done < sent.size();) {
    const std::string copy = sent.substr(done);
    const Transfer moved = pair.session->transmit(copy);
    ASSERT_NE(moved.state, State::kBroken);
    done += moved.bytes;
    if (moved.state != State::kWait) continue;
    ++waits;
    EXPECT_EQ(pair.session->transmit(copy.substr(0, 1)).state, State::kWait);
    ASSERT_TRUE(pair.client->pull(10'000));
  }
  EXPECT_GT(waits, 1);
  while (pair.client->pull()) {
  }
  EXPECT_EQ(pair.client->received(), sent);
}

TEST(Tls, an_end_right_behind_the_bytes_is_seen) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.exchange();
  pair.client->write("last");
  pair.client->say_goodbye();
  pair.client->push();
  EXPECT_EQ(pair.receive().bytes, 4U);
  EXPECT_TRUE(pair.session->over());
  EXPECT_EQ(pair.receive().state, State::kEnd);
}

TEST(Tls, the_end_of_the_connection_is_an_end_without_a_goodbye) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.exchange();
  pair.client.reset();
  EXPECT_EQ(pair.receive().state, State::kEnd);
  EXPECT_NE(pair.session->transmit("to nobody").state, State::kMoved);  // and no SIGPIPE
}

TEST(Tls, a_goodbye_reaches_the_client) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.exchange();
  EXPECT_FALSE(pair.client->over());
  pair.session->say_goodbye();
  pair.client->pull();
  EXPECT_TRUE(pair.client->over());
}

TEST(Tls, who_speaks_no_tls_is_refused_and_counted) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  send_bytes(pair.client->fd(), "*1\r\n$4\r\nPING\r\n");
  EXPECT_EQ(pair.receive().state, State::kBroken);
  EXPECT_EQ(pair.receive().state, State::kBroken);
  EXPECT_EQ(pair.session->transmit("x").state, State::kBroken);
  pair.session.reset();
  EXPECT_EQ(server->stats().failed, 1U);
  EXPECT_STREQ(server->stats().last_failure, "wrong version number");
}

TEST(Tls, who_goes_away_in_the_handshake_is_counted) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair pair(*server, nullptr);
  pair.client->push(20);
  EXPECT_EQ(pair.receive().state, State::kWait);
  pair.client.reset();
  EXPECT_EQ(pair.receive().state, State::kBroken);
  pair.session.reset();
  EXPECT_EQ(server->stats().failed, 1U);
  EXPECT_EQ(server->stats().handshakes, 0U);
}

bool is_served(const TlsFiles& files, const Credential* shows) {
  const auto server = open_server(files);
  Pair pair(*server, shows);
  pair.exchange();
  return pair.session->established();
}

TEST(Tls, clients_show_certificates_where_they_must) {
  const Certificates made;
  const Credential stranger = testing::make_credential("client", nullptr);
  EXPECT_TRUE(is_served(made.files(TlsClients::kMust), &made.client));
  EXPECT_FALSE(is_served(made.files(TlsClients::kMust), nullptr));
  EXPECT_FALSE(is_served(made.files(TlsClients::kMust), &stranger));
  EXPECT_TRUE(is_served(made.files(TlsClients::kMay), nullptr));
  EXPECT_FALSE(is_served(made.files(TlsClients::kMay), &stranger));
  EXPECT_TRUE(is_served(made.files(TlsClients::kNeedNot), &stranger));
}

TEST(Tls, a_reload_is_for_new_connections) {
  const Certificates made;
  const auto server = open_server(made.files());
  Pair before(*server, nullptr);
  before.exchange();
  save(testing::make_credential("server", &made.ca, 77), made.path("_server"));
  ASSERT_TRUE(server->reload(made.files()).ok());
  Pair after(*server, nullptr);
  after.exchange();
  EXPECT_EQ(before.client->serial_of_server(), 2);
  EXPECT_EQ(after.client->serial_of_server(), 77);
  before.client->write("still here");
  before.exchange();
  EXPECT_EQ(before.received, "still here");
}

std::string trouble_with(const TlsFiles& files) {
  const auto opened = open_tls(files);
  return opened.ok() ? "none" : opened.error();
}

TEST(Tls, files_that_do_not_serve_are_refused_by_the_name_of_their_option) {
  const Certificates made;
  const std::string wrong = made.path("_ca.key");
  const std::string text = made.path("_text");
  std::ofstream(text) << "no certificate\n";
  const auto with = [&](auto member, const std::string& file) {
    TlsFiles files = made.files(TlsClients::kMust);
    files.*member = file;
    return trouble_with(files);
  };
  EXPECT_EQ(with(&TlsFiles::cert_file, ""),
            "tls_cert_file: takes the name of a file with a certificate in PEM form");
  EXPECT_EQ(with(&TlsFiles::cert_file, "/no/file"),
            "tls_cert_file: cannot read '/no/file': No such file or directory");
  EXPECT_EQ(with(&TlsFiles::cert_file, text),
            "tls_cert_file: '" + text + "' holds no certificate in PEM form");
  EXPECT_EQ(with(&TlsFiles::key_file, ""),
            "tls_key_file: takes the name of a file with a private key in PEM form");
  EXPECT_EQ(with(&TlsFiles::key_file, text),
            "tls_key_file: '" + text + "' holds no unencrypted private key in PEM form");
  EXPECT_EQ(with(&TlsFiles::key_file, wrong),
            "tls_key_file: the key in '" + wrong + "' is not that of the certificate in '" +
                made.files().cert_file + "'");
  EXPECT_EQ(with(&TlsFiles::ca_cert_file, ""),
            "tls_ca_cert_file: is needed to check the certificates of clients; or say "
            "--tls-auth-clients no");
  EXPECT_EQ(with(&TlsFiles::ca_cert_file, text),
            "tls_ca_cert_file: '" + text + "' holds no certificate in PEM form");
}

TEST(Tls, a_reload_that_fails_leaves_the_certificate_as_it_was) {
  const Certificates made;
  const auto server = open_server(made.files());
  std::ofstream(made.files().cert_file) << "half a certific";
  EXPECT_FALSE(server->reload(made.files()).ok());
  Pair pair(*server, nullptr);
  pair.exchange();
  EXPECT_EQ(pair.client->serial_of_server(), 2);
}

TEST(Tls, sessions_are_charged_to_the_account) {
  const Certificates made;
  const auto server = open_server(made.files());
  {
    Pair pair(*server, nullptr);
    EXPECT_EQ(pair.account.buffers(), OpenSslSession::kBytes);
    pair.session.reset();
    EXPECT_EQ(pair.account.buffers(), 0U);
  }
  MemoryAccount full;
  full.set_limit(OpenSslSession::kBytes - 1);
  EXPECT_EQ(server->accept(-1, &full), nullptr);
}

// A server of lines with a plain and a TLS port.
class TlsDatapath : public ::testing::Test {
 protected:
  TlsDatapath() : server_(open_server(made_.files())) {
    TcpOptions options;
    options.more_ports = {{0, "too many\n", true}};
    options.tls_context = server_.get();
    options.queues = 2;
    tcp_ = TcpDatapath::open(std::move(options), protocol_).value();
  }

  Fd connect(size_t port) {
    const SocketAddress address = resolve("127.0.0.1", tcp_->ports()[port]).value();
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                        address.length),
              0);
    EXPECT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    return fd;
  }

  // Serves and moves the client's bytes until `done`; false after ten seconds.
  template <class Done>
  bool run(TlsClient& client, Done&& done, size_t step = SIZE_MAX) {
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (!done()) {
      if (datapath_now() > deadline) return false;
      client.push(step);
      echo();
      client.pull(std::min<size_t>(step, 65536));
    }
    return true;
  }

  void echo() {
    std::array<Request*, 32> burst{};
    for (uint32_t q = 0; q < tcp_->queues(); ++q) {
      const uint32_t n = tcp_->queue(WorkerId{q}).poll(burst);
      for (uint32_t i = 0; i < n; ++i) {
        for (Request* r = burst[i]; r != nullptr; r = r->datapath->finish(*r)) {
          r->reply->append(r->payload);
        }
      }
    }
  }

  const Certificates made_;
  std::unique_ptr<TlsServer> server_;
  LineProtocol protocol_;
  std::unique_ptr<TcpDatapath> tcp_;
};

TEST_F(TlsDatapath, lines_are_echoed_however_small_their_fragments) {
  for (const size_t step : {size_t{1}, size_t{7}, SIZE_MAX}) {
    TlsClient client(connect(1));
    ASSERT_TRUE(run(client, [&] { return client.established(); }, step));
    client.write("one\ntwo\n");
    EXPECT_TRUE(run(client, [&] { return client.received() == "one\ntwo\n"; }, step));
  }
}

TEST_F(TlsDatapath, a_long_pipeline_comes_back_whole) {
  TlsClient client(connect(1));
  ASSERT_TRUE(run(client, [&] { return client.established(); }));
  std::string lines;
  for (int i = 0; lines.size() < 2'000'000; ++i) lines += std::to_string(i) + "\n";
  client.write(lines);
  EXPECT_TRUE(run(client, [&] { return client.received().size() == lines.size(); }, 30'000));
  EXPECT_EQ(client.received(), lines);
}

TEST_F(TlsDatapath, a_connection_keeps_its_session_when_it_is_steered) {
  TlsClient client(connect(1));
  ASSERT_TRUE(run(client, [&] { return client.established(); }));
  std::string expected;
  for (uint32_t i = 0; i < 20; ++i) {
    tcp_->steer(protocol_.last_flow, WorkerId{i % 2});
    client.write("line\n");
    expected += "line\n";
    ASSERT_TRUE(run(client, [&] { return client.received() == expected; }));
  }
  EXPECT_GT(tcp_->stats().flows_steered + tcp_->stats().flows_unsteered, 5U);
}

TEST_F(TlsDatapath, a_line_and_a_goodbye_at_once_are_answered_and_the_connection_ends) {
  TlsClient client(connect(1));
  ASSERT_TRUE(run(client, [&] { return client.established(); }));
  client.write("last\n");
  client.say_goodbye();
  EXPECT_TRUE(run(client, [&] { return client.over() && protocol_.live == 0; }));
  EXPECT_EQ(client.received(), "last\n");
}

TEST_F(TlsDatapath, who_is_over_the_limit_gets_no_plain_reply) {
  tcp_->set_max_flows(0);
  TlsClient client(connect(1));
  EXPECT_TRUE(run(client, [&] { return client.over(); }));
  EXPECT_EQ(tcp_->stats().flows_refused, 1U);
  EXPECT_EQ(server_->stats().failed, 0U);
}

TEST_F(TlsDatapath, who_does_not_finish_the_handshake_keeps_nobody_waiting) {
  TlsClient silent(connect(1));
  silent.push(30);
  TlsClient client(connect(1));
  ASSERT_TRUE(run(client, [&] { return client.established(); }));
  client.write("one\n");
  EXPECT_TRUE(run(client, [&] { return client.received() == "one\n"; }));
  EXPECT_FALSE(silent.established());
}

}  // namespace
}  // namespace rubato
