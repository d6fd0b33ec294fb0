// SPDX-License-Identifier: Apache-2.0
//
// What a datagram costs the server on a virtual link, by each wire: 64 bytes in and out, an echo,
// no runtime. Client and server take turns on one thread, and only the CPU time of the server's
// turn is counted, per request; what the kernel does for an arrival counts for its sender. So
// nobody sleeps, and neighbours disturb little. Needs root; the wires of one run are compared:
//
//   datagram_wires_bench --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/testing/udp_client.h"
#include "datapath/time_source.h"
#include "datapath/udp_wire.h"
#include "dpdk/wire.h"
#include "mechanism/cpu/this_worker.h"
#include "xdp/testing/namespaces.h"
#include "xdp/wire.h"

namespace rubato {
namespace {

using testing::EchoDatagrams;
using testing::Namespaces;
using testing::UdpClient;

constexpr uint16_t kPort = 7777;

// Each wire has a link of its own, so that no program of another is on it: the server's end v0 with
// the address 10.78.0.1, the client's c0 with 10.78.0.2, and so on.
class Links {
 public:
  static constexpr int kLinks = 4;

  Links() {
    const std::string client = "rubato-c" + std::to_string(::getpid());
    works_ = ends_.works();
    for (int i = 0; i < kLinks && works_; ++i) {
      const std::string id = std::to_string(i);
      const std::string queues = id + " numrxqueues 1 numtxqueues 1";
      works_ = ends_.run_in_server("ip link add v" + queues + " type veth peer name c" + queues) &&
               ends_.run_in_server("ip link set c" + id + " netns " + client) &&
               ends_.run_in_server("ip addr add 10.78." + id + ".1/24 dev v" + id) &&
               ends_.run_in_server("ip link set v" + id + " up") &&
               ends_.run_in_client("ip addr add 10.78." + id + ".2/24 dev c" + id) &&
               ends_.run_in_client("ip link set c" + id + " up");
    }
  }
  bool work() const { return works_; }
  Namespaces& ends() { return ends_; }
  static std::string address(int link) { return "10.78." + std::to_string(link) + ".1"; }
  static std::string interface(int link) { return "v" + std::to_string(link); }

 private:
  Namespaces ends_{1};
  bool works_ = false;
};

Links& links() {
  static Links only;
  return only;
}

// Of this thread: what it waits for its CPU does not count.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// With its clients, each of which has a socket.
class Served {
 public:
  Served(std::unique_ptr<DatagramWire> wire, const std::string& address)
      : datapath_(DatagramDatapath::open(std::move(wire), protocol_).value()) {
    links().ends().enter_client();
    for (uint32_t i = 0; i < kMostClients; ++i) {
      clients_.push_back(std::make_unique<UdpClient>(address.c_str(), kPort));
    }
    links().ends().leave();
  }

  // The server's turn, in seconds; negative: a datagram was lost.
  double round(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) clients_[i]->send(std::string_view(text_));
    const double start = cpu_seconds();
    if (!answer(count)) return -1;
    const double turn = cpu_seconds() - start;
    for (uint32_t i = 0; i < count; ++i) {
      if (clients_[i]->receive().size() != text_.size()) return -1;
    }
    return turn;
  }

 private:
  static constexpr uint32_t kMostClients = 16;

  bool answer(uint32_t count) {
    DatapathQueue& queue = datapath_->queue(WorkerId{0});
    std::array<Request*, 32> burst{};
    const Instant deadline = datapath_now() + Nanos::seconds(2);
    while (count > 0 && datapath_now() < deadline) {
      const uint32_t n = queue.poll(burst);
      for (uint32_t i = 0; i < n; ++i) {
        burst[i]->reply->append(burst[i]->payload);
        burst[i]->datapath->finish(*burst[i]);
      }
      queue.push();
      count -= n;
    }
    return count == 0;
  }

  const std::string text_ = std::string(64, 'x');
  EchoDatagrams protocol_;
  std::unique_ptr<DatagramDatapath> datapath_;
  std::vector<std::unique_ptr<UdpClient>> clients_;
};

using OpenWire = Result<std::unique_ptr<DatagramWire>> (*)(int link);

// Opened once and never closed: a port of DPDK is the process's, and ends with it.
Result<Served*> served_on(int link, OpenWire open) {
  static auto* const all = new std::map<int, Served*>;
  const auto found = all->find(link);
  if (found != all->end()) return found->second;
  if (!links().work() || !links().ends().enter_server()) {
    return Error{"network namespaces are not permitted here"};
  }
  auto wire = open(link);
  links().ends().leave();
  if (!wire.ok()) return Error{wire.error()};
  return (*all)[link] = new Served(std::move(*wire), Links::address(link));
}

void serve(benchmark::State& state, int link, OpenWire open) {
  const auto served = served_on(link, open);
  if (!served.ok()) return state.SkipWithError(served.error().c_str());
  set_this_worker(0);
  const auto count = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) {
    const double turn = served.value()->round(count);
    if (turn < 0) {
      state.SkipWithError("a datagram was lost");
      break;
    }
    state.SetIterationTime(turn);
  }
  using benchmark::Counter;
  state.counters["per_request"] =
      Counter(count, Counter::kIsIterationInvariantRate | Counter::kInvert);
  set_no_worker();
}

Result<std::unique_ptr<DatagramWire>> open_kernel(int link, uint32_t batch) {
  UdpWireOptions options;
  options.bind = Links::address(link);
  options.port = kPort;
  options.batch = batch;
  auto wire = UdpWire::open(options);
  if (!wire.ok()) return Error{wire.error()};
  return std::unique_ptr<DatagramWire>(std::move(*wire));
}

void kernel_singly(benchmark::State& state) {
  serve(state, 0, [](int link) { return open_kernel(link, 1); });
}
void kernel_batches(benchmark::State& state) {
  serve(state, 1, [](int link) { return open_kernel(link, 32); });
}
void af_xdp(benchmark::State& state) {
  serve(state, 2, [](int link) {
    return open_xdp_wire({Links::interface(link), Links::address(link), kPort, 1});
  });
}
void dpdk_on_af_xdp(benchmark::State& state) {
  serve(state, 3, [](int link) {
    DpdkWireOptions options;
    options.port = "net_af_xdp0";
    options.arguments = "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level=error "
                        "--vdev=net_af_xdp0,busy_budget=0,iface=" + Links::interface(link);
    options.bind = Links::address(link);
    options.udp_port = kPort;
    options.clock = &datapath_now;
    return dpdk::open_wire(options);
  });
}

BENCHMARK(kernel_singly)->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(kernel_batches)->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(af_xdp)->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(dpdk_on_af_xdp)->Arg(1)->Arg(16)->UseManualTime();

}  // namespace
}  // namespace rubato
