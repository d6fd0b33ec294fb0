// SPDX-License-Identifier: Apache-2.0
//
// UdpClient: a connected socket of the kernel as a client of the datagram contract. Its owner's
// thread only.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <string>
#include <string_view>

#include "datapath/tcp_socket.h"
#include "datapath/testing/datagram_bed.h"

namespace rubato::testing {

class UdpClient final : public DatagramClient {
 public:
  UdpClient(const char* host, uint16_t port) {
    const SocketAddress to = resolve(host, port).value();
    fd_ = Fd(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length), 0);
    const timeval limit{0, 20'000};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void send(std::string_view bytes) override {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::string receive() override {
    std::array<char, 4096> bytes;
    const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    return n > 0 ? std::string(bytes.data(), static_cast<size_t>(n)) : std::string();
  }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace rubato::testing
