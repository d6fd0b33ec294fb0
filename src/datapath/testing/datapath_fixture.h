// SPDX-License-Identifier: Apache-2.0
//
// A test bed over any datapath: clients that look the same whatever the wire, and a server that a
// test steps by hand. One thread unless a test says otherwise. Nothing here waits forever.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datapath/loopback.h"
#include "datapath/tcp.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"

namespace rubato::testing {

// What contract tests set on either datapath.
struct FixtureOptions {
  uint32_t queues = 1;
  uint32_t max_flows = 10000;
  FlowLimits limits;
  Nanos idle_timeout;
};

class TestClient {
 public:
  virtual ~TestClient() = default;
  virtual bool connected() const = 0;
  // False: not all of it was taken (closed, or the wire is full).
  virtual bool send(std::string_view bytes) = 0;
  // `size` bytes, fewer at the end of the stream or after thirty seconds.
  virtual std::string receive(size_t size) = 0;
  virtual void half_close() = 0;
  virtual void reset() = 0;
};

class DatapathFixture {
 public:
  virtual ~DatapathFixture() = default;
  virtual Datapath& datapath() = 0;
  virtual std::unique_ptr<TestClient> connect() = 0;

  LineProtocol protocol;

  std::vector<Request*> poll() {
    std::array<Request*, 32> burst{};
    std::vector<Request*> all;
    for (uint32_t q = 0; q < datapath().queues(); ++q) {
      const uint32_t n = datapath().queue(WorkerId{q}).poll(burst);
      all.insert(all.end(), burst.begin(), burst.begin() + n);
    }
    return all;
  }

  // Polls until `done`; false after thirty seconds.
  bool poll_until(const std::function<bool()>& done, std::vector<Request*>* taken = nullptr) {
    const Instant deadline = datapath_now() + Nanos::seconds(30);
    while (!done()) {
      if (datapath_now() > deadline) return false;
      for (Request* request : poll()) {
        if (taken != nullptr) taken->push_back(request);
      }
      if (datapath().queues() == 1) datapath().queue(WorkerId{0}).wait(Nanos::millis(1));
    }
    return true;
  }

  // The next request of any flow; null after thirty seconds.
  Request* next() {
    std::vector<Request*> taken;
    poll_until([&] { return !taken.empty(); }, &taken);
    return taken.empty() ? nullptr : taken.front();
  }

  static Request* finish(Request* request, std::string_view reply) {
    request->reply->append(reply);
    return request->datapath->finish(*request);
  }

  // Answers each request with itself until `count` are done.
  bool echo(uint32_t count) {
    const Instant deadline = datapath_now() + Nanos::seconds(30);
    while (count > 0 && datapath_now() < deadline) {
      for (Request* request : poll()) {
        for (; request != nullptr; --count) request = finish(request, request->payload);
      }
    }
    return count == 0;
  }

  // True when every session has ended, at the latest after thirty seconds. Requests that vanished
  // clients have left in the kernel are answered on the way.
  bool all_closed() {
    const Instant deadline = datapath_now() + Nanos::seconds(30);
    while (protocol.live > 0 && datapath_now() < deadline) {
      for (Request* request : poll()) {
        while (request != nullptr) request = finish(request, request->payload);
      }
    }
    return protocol.live == 0;
  }
};

class TcpClient final : public TestClient {
 public:
  explicit TcpClient(uint16_t port) {
    const SocketAddress address = resolve("127.0.0.1", port).value();
    fd_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{30, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                           address.length) == 0;
  }

  int fd() const { return fd_.get(); }
  bool connected() const override { return connected_; }
  bool send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  std::string receive(size_t size) override {
    std::string text(size, '\0');
    size_t got = 0;
    while (got < size) {
      const ssize_t n = ::recv(fd(), text.data() + got, size - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    text.resize(got);
    return text;
  }
  void half_close() override { ::shutdown(fd(), SHUT_WR); }
  void reset() override {
    const linger at_once{1, 0};
    ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    fd_.reset();
  }

 private:
  Fd fd_;
  bool connected_ = false;
};

class TcpFixture final : public DatapathFixture {
 public:
  explicit TcpFixture(const FixtureOptions& wanted) {
    TcpOptions options;
    options.queues = wanted.queues;
    options.max_flows = wanted.max_flows;
    options.limits = wanted.limits;
    options.idle_timeout = wanted.idle_timeout;
    options.over_limit_reply = "too many\n";
    tcp_ = TcpDatapath::open(options, protocol).value();
  }
  Datapath& datapath() override { return *tcp_; }
  std::unique_ptr<TestClient> connect() override {
    return std::make_unique<TcpClient>(tcp_->port());
  }

 private:
  std::unique_ptr<TcpDatapath> tcp_;
};

class LoopbackClient final : public TestClient {
 public:
  explicit LoopbackClient(LoopbackDatapath& datapath)
      : datapath_(datapath), flow_(datapath.connect()) {}
  ~LoopbackClient() override { reset(); }

  bool connected() const override { return flow_ != 0; }
  bool send(std::string_view bytes) override { return datapath_.submit(flow_, bytes); }
  std::string receive(size_t size) override {
    while (kept_.size() < size) {
      const std::string more = datapath_.receive(flow_, size - kept_.size());
      if (more.empty()) break;
      kept_ += more;
    }
    const std::string text = kept_.substr(0, size);
    kept_.erase(0, text.size());
    return text;
  }
  void half_close() override { datapath_.finish_sending(flow_); }
  void reset() override { datapath_.forget(flow_); }

 private:
  LoopbackDatapath& datapath_;
  uint64_t flow_;
  std::string kept_;
};

class LoopbackFixture final : public DatapathFixture {
 public:
  explicit LoopbackFixture(const FixtureOptions& wanted) {
    LoopbackOptions options;
    options.queues = wanted.queues;
    options.max_flows = wanted.max_flows;
    options.limits = wanted.limits;
    options.idle_timeout = wanted.idle_timeout;
    options.wire_bytes = size_t{8} << 20;
    loopback_ = std::make_unique<LoopbackDatapath>(options, protocol);
  }
  Datapath& datapath() override { return *loopback_; }
  std::unique_ptr<TestClient> connect() override {
    return std::make_unique<LoopbackClient>(*loopback_);
  }

 private:
  std::unique_ptr<LoopbackDatapath> loopback_;
};

inline std::unique_ptr<DatapathFixture> make_fixture(const std::string& kind,
                                                     const FixtureOptions& options = {}) {
  if (kind == "tcp") return std::make_unique<TcpFixture>(options);
  return std::make_unique<LoopbackFixture>(options);
}

}  // namespace rubato::testing
