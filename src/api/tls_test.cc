// SPDX-License-Identifier: Apache-2.0
//
// TLS between tasks of one worker.
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>

#include <rubato/rubato.hpp>
#include <rubato/tls.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Executor;
using rubato::Socket;
using rubato::TlsSocket;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, Free>;

// A server with a certificate for "localhost" that it has signed itself, and a client that trusts
// that one.
class TlsSockets : public ::testing::Test {
 protected:
  TlsSockets() : server_(SSL_CTX_new(TLS_server_method())), client_(SSL_CTX_new(TLS_method())) {
    ::signal(SIGPIPE, SIG_IGN);
    const std::unique_ptr<EVP_PKEY, Free> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
    const std::unique_ptr<X509, Free> certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_NAME* const name = X509_get_subject_name(certificate.get());
    const auto* host = reinterpret_cast<const unsigned char*>("localhost");
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
    X509_set_issuer_name(certificate.get(), name);
    X509_set_pubkey(certificate.get(), key.get());
    EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    SSL_CTX_use_certificate(server_.get(), certificate.get());
    SSL_CTX_use_PrivateKey(server_.get(), key.get());
    X509_STORE_add_cert(SSL_CTX_get_cert_store(client_.get()), certificate.get());
    SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
    listen();
    rubato::ExecutorOptions options;
    options.scheduler.workers = 1;
    auto executor = Executor::create(options);
    EXPECT_TRUE(executor.ok());
    executor_ = std::make_unique<Executor>(std::move(*executor));
  }
  ~TlsSockets() override { ::close(listener_); }

  Socket accept() const {
    rubato::wait_fd(listener_, POLLIN);
    return Socket(::accept(listener_, nullptr, nullptr));
  }

  std::unique_ptr<Executor> executor_;
  Context server_;
  Context client_;
  uint16_t port_ = 0;

 private:
  void listen() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }

  int listener_ = -1;
};

TEST_F(TlsSockets, talk_on_one_worker) {
  auto served = executor_->submit([&] {
    auto tls = TlsSocket::accept(accept(), server_.get());
    ASSERT_TRUE(tls) << tls.error();
    std::array<char, 4096> bytes;
    while (const size_t n = *tls->read(bytes.data(), bytes.size())) {
      ASSERT_TRUE(tls->write({bytes.data(), n}));
    }
    tls->end_writing();
  });
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("localhost", port_, client_.get(), 10s);
    EXPECT_TRUE(tls) << tls.error();
    std::string back;
    std::array<char, 1000> bytes;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(tls->write(std::string(999, static_cast<char>('a' + i))));
      for (const size_t all = back.size() + 999; back.size() < all;) {
        back.append(bytes.data(), *tls->read(bytes.data(), bytes.size(), 10s));
      }
    }
    EXPECT_EQ(tls->read(bytes.data(), 1, 1ms).error(), "read: the deadline has passed");
    tls->end_writing();
    EXPECT_EQ(*tls->read(bytes.data(), 1, 10s), 0u);
    return back;
  });
  const std::string back = asked.get();
  served.get();
  ASSERT_EQ(back.size(), 20u * 999);
  for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], static_cast<char>('a' + i / 999));
}

TEST_F(TlsSockets, a_certificate_for_another_host_is_refused) {
  auto served = executor_->submit(
      [&] { return TlsSocket::accept(accept(), server_.get(), 10s).ok(); });
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("127.0.0.1", port_, client_.get(), 10s);
    return tls ? std::string() : tls.error();
  });
  EXPECT_EQ(asked.get(), "TLS: certificate verify failed");
  EXPECT_FALSE(served.get());
}

TEST_F(TlsSockets, a_handshake_ends_at_its_deadline) {
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("127.0.0.1", port_, client_.get(), 5ms);
    return tls ? std::string() : tls.error();
  });
  EXPECT_EQ(asked.get(), "TLS: the deadline has passed");
}

// What a peer says in the open, before it has shown its certificate.
TEST_F(TlsSockets, a_handshake_that_the_other_end_closes_has_failed) {
  auto closed = executor_->submit([&] {
    Socket other = accept();
    std::array<char, 1> hello;
    EXPECT_TRUE(other.read(hello.data(), 1, 10s));
    EXPECT_TRUE(other.write({"\x15\x03\x03\0\x02\x01\0", 7}));  // alert: close_notify
    static_cast<void>(other.read_until('\0', 10s));
  });
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("localhost", port_, client_.get(), 10s);
    return tls ? std::string() : tls.error();
  });
  EXPECT_EQ(asked.get(), "TLS: the other end has closed");
  closed.get();
}

TEST_F(TlsSockets, a_write_after_the_other_end_has_left_is_an_error) {
  rubato::Semaphore left;
  auto served = executor_->submit([&] {
    Socket socket = accept();
    const linger at_once{1, 0};
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    auto tls = TlsSocket::accept(std::move(socket), server_.get(), 10s);
    ASSERT_TRUE(tls) << tls.error();
    tls->end_writing();
    std::array<char, 1> byte;
    EXPECT_EQ(*tls->read(byte.data(), 1, 10s), 1u);
  });
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("localhost", port_, client_.get(), 10s);
    EXPECT_TRUE(tls) << tls.error();
    std::array<char, 1> byte;
    EXPECT_EQ(*tls->read(byte.data(), 1, 10s), 0u);
    EXPECT_TRUE(tls->write("x", 10s));
    left.acquire();
    return tls->write("y", 10s).ok();
  });
  served.get();
  left.release();
  EXPECT_FALSE(asked.get());
}

// By a client who never reads; the server reads when that one has gone.
TEST_F(TlsSockets, all_is_written_where_the_context_allows_partial_writes) {
  constexpr size_t kBytes = 500'000;  // more than the other end's kernel takes
  SSL_CTX_set_mode(client_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  rubato::Semaphore gone;
  auto served = executor_->submit([&] {
    auto tls = TlsSocket::accept(accept(), server_.get(), 10s);
    gone.acquire();
    std::array<char, 4096> bytes;
    size_t all = 0;
    for (;;) {
      const auto n = tls->read(bytes.data(), bytes.size(), 10s);
      EXPECT_TRUE(n) << n.error();
      if (!n || *n == 0) return all;
      all += *n;
    }
  });
  auto asked = executor_->submit([&] {
    auto tls = TlsSocket::connect("localhost", port_, client_.get(), 10s);
    EXPECT_NE(rubato::wait_fd(SSL_get_fd(tls->ssl()), POLLIN, 10s), 0);  // the tickets
    EXPECT_TRUE(tls->write(std::string(kBytes, 'x'), 10s));
    tls->end_writing(10s);
  });
  asked.get();
  gone.release();
  EXPECT_EQ(served.get(), kBytes);
}

// A pair of local sockets counts what is in it exactly.
TEST_F(TlsSockets, the_end_of_writing_waits_for_room) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  rubato::Semaphore full;
  auto served = executor_->submit([&] {
    auto tls = TlsSocket::accept(Socket(ends[0]), server_.get(), 10s);
    ASSERT_TRUE(tls) << tls.error();
    int room = 0;
    socklen_t size = sizeof room;
    ::getsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, &size);
    for (int held = 0; held < room; ::ioctl(ends[0], SIOCOUTQ, &held)) {
      EXPECT_TRUE(tls->write(std::string(1500, 'x'), 10s));
    }
    full.release();
    tls->end_writing(10s);
  });
  const std::unique_ptr<SSL, void (*)(SSL*)> slow(SSL_new(client_.get()), &SSL_free);
  SSL_set_fd(slow.get(), ends[1]);
  ASSERT_EQ(SSL_connect(slow.get()), 1);
  full.acquire();
  std::array<char, 4096> bytes;
  int n = 1;
  while (n > 0) n = SSL_read(slow.get(), bytes.data(), bytes.size());
  EXPECT_EQ(SSL_get_error(slow.get(), n), SSL_ERROR_ZERO_RETURN);
  served.get();
  ::close(ends[1]);
}

}  // namespace
