// SPDX-License-Identifier: Apache-2.0
//
// Two processes of DPDK over shared memory (net_memif): the server is testing/memif_echo.cc.
#include <gtest/gtest.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "datapath/time_source.h"
#include "dpdk/testing/environment.h"
#include "dpdk/testing/frame_client.h"

namespace rubato::testing {
namespace {

constexpr Nanos kPatience = Nanos::seconds(30);
constexpr const char* kPort = "net_memif1";

// A folder of its own, and the program with the other end of its standard input.
class EchoProcess {
 public:
  EchoProcess() {
    char name[] = "/tmp/rubato-memif-XXXXXX";
    folder_ = ::mkdtemp(name);
    const std::string command =
        std::string(RUBATO_MEMIF_ECHO) + " " + socket() + " >" + folder_ + "/said 2>&1";
    input_ = ::popen(command.c_str(), "we");
  }
  ~EchoProcess() {
    if (input_ != nullptr) ::pclose(input_);
    std::filesystem::remove_all(folder_);
  }
  std::string socket() const { return folder_ + "/memif.sock"; }
  bool listens() const { return said() == "ready\n"; }
  bool failed() const { return said().starts_with("dpdk: "); }

 private:
  std::string said() const {
    std::ifstream file(folder_ + "/said");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string folder_;
  FILE* input_ = nullptr;
};

class PortLink final : public FrameLink {
 public:
  // False: there is no such driver.
  static bool has_driver() {
    constexpr const char* kProbe = "net_memif0";
    return rte_vdev_init(kProbe, "role=client") == 0 && rte_vdev_uninit(kProbe) == 0;
  }
  // False: the port cannot be started.
  bool open(const std::string& arguments) {
    if (rte_vdev_init(kPort, arguments.c_str()) != 0) return false;
    pool_ = rte_pktmbuf_pool_create("memif_clients", 4095, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM, 0);
    const rte_eth_conf conf{};
    return pool_ != nullptr && rte_eth_dev_get_port_by_name(kPort, &port_) == 0 &&
           rte_eth_dev_configure(port_, 1, 1, &conf) == 0 &&
           rte_eth_rx_queue_setup(port_, 0, 1024, 0, nullptr, pool_) == 0 &&
           rte_eth_tx_queue_setup(port_, 0, 1024, 0, nullptr) == 0 && rte_eth_dev_start(port_) == 0;
  }
  ~PortLink() override {
    rte_eth_dev_stop(port_);
    rte_vdev_uninit(kPort);
    rte_mempool_free(pool_);
  }
  bool is_up() const {
    rte_eth_link link{};
    rte_eth_link_get_nowait(port_, &link);
    return link.link_status == RTE_ETH_LINK_UP;
  }
  rte_mempool* pool() { return pool_; }
  bool put(rte_mbuf* frame) override {
    if (rte_eth_tx_burst(port_, 0, &frame, 1) == 1) return true;
    rte_pktmbuf_free(frame);
    return false;
  }
  rte_mbuf* get() override {
    rte_mbuf* frame = nullptr;
    return rte_eth_rx_burst(port_, 0, &frame, 1) == 1 ? frame : nullptr;
  }

 private:
  uint16_t port_ = RTE_MAX_ETHPORTS;
  rte_mempool* pool_ = nullptr;
};

template <class Condition>
bool comes_true(Condition condition) {
  const Instant deadline = datapath_now() + kPatience;
  while (!condition()) {
    if (datapath_now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// The Ethernet address of 10.77.0.1; empty = nobody answers.
std::string ask_for_server(PortLink& link) {
  std::string ask("\xff\xff\xff\xff\xff\xff\2\0\0\0\0\2\x08\6\0\1\x08\0\6\4\0\1", 22);
  ask += std::string("\2\0\0\0\0\2\x0a\x4d\0\2\0\0\0\0\0\0\x0a\x4d\0\1", 20);
  link.put_bytes(link.pool(), ask);
  std::string answer;
  comes_true([&] { return !(answer = link.get_bytes()).empty(); });
  return answer.size() >= 42 ? answer.substr(22, 6) : "";
}

TEST(Memif, another_process_answers_every_request_once) {
  std::string reason;
  if (!has_environment(reason)) GTEST_SKIP() << reason;
  if (!PortLink::has_driver()) GTEST_SKIP() << "no net_memif here";
  const EchoProcess server;
  ASSERT_TRUE(comes_true([&] { return server.listens() || server.failed(); }));
  ASSERT_FALSE(server.failed());
  PortLink link;
  ASSERT_TRUE(link.open("role=client,socket-abstract=no,socket=" + server.socket()));
  ASSERT_TRUE(comes_true([&] { return link.is_up(); }));
  const std::string found = ask_for_server(link);
  ASSERT_EQ(found.size(), 6u);
  std::array<uint8_t, 6> mac{};
  std::copy(found.begin(), found.end(), mac.begin());
  ClientHost host(link, link.pool(), server_at(false, 0, mac));
  constexpr uint32_t kRequests = 20'000;
  constexpr uint32_t kInFlight = 64;
  std::vector<uint32_t> heard(kRequests);
  uint32_t sent = 0;
  uint32_t answered = 0;
  EXPECT_TRUE(comes_true([&] {
    for (; sent < kRequests && sent - answered < kInFlight; ++sent) {
      host.send(40000, std::to_string(sent));
    }
    for (std::string reply; !(reply = host.receive(40000)).empty(); ++answered) {
      ++heard[std::stoul(reply)];
    }
    return answered == kRequests;
  }));
  EXPECT_EQ(std::count(heard.begin(), heard.end(), 1u), kRequests);
}

}  // namespace
}  // namespace rubato::testing
