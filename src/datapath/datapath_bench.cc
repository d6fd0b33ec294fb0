// SPDX-License-Identifier: Apache-2.0
//
// The cost of a request on its way in and out, without an application: client and server take turns
// on one thread, so the figures include the client's system calls. Compare, do not add up.
#include <benchmark/benchmark.h>
#include <sys/socket.h>

#include <array>

#include "datapath/loopback.h"
#include "datapath/tcp.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"

namespace rubato {
namespace {

using testing::LineProtocol;

void answer(DatapathQueue& queue, int64_t count) {
  std::array<Request*, 32> burst{};
  while (count > 0) {
    const uint32_t n = queue.poll(burst);
    for (uint32_t i = 0; i < n; ++i) {
      for (Request* r = burst[i]; r != nullptr; --count) {
        r->reply->append(r->payload);
        r = r->datapath->finish(*r);
      }
    }
  }
}

std::string pipeline_of(int64_t depth) {
  std::string text;
  for (int64_t i = 0; i < depth; ++i) text += "0123456789abcdef0123456789abcde\n";
  return text;
}

// Connects to the datapath. On failure the Fd is closed, and the run reports the error.
Fd connect_to(const TcpDatapath& tcp, benchmark::State& state) {
  const SocketAddress address = resolve("127.0.0.1", tcp.port()).value();
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                address.length) != 0) {
    state.SkipWithError("cannot connect");
    client.reset();
  }
  return client;
}

// Arguments: pipeline depth, kernel time stamps.
void tcp_round_trip(benchmark::State& state) {
  LineProtocol protocol;
  TcpOptions options;
  options.kernel_timestamps = state.range(1) != 0;
  const auto tcp = TcpDatapath::open(options, protocol).value();
  const Fd client = connect_to(*tcp, state);
  if (!client.valid()) return;
  const std::string text = pipeline_of(state.range(0));
  std::string reply(text.size(), '\0');
  for (auto _ : state) {
    ::send(client.get(), text.data(), text.size(), 0);
    answer(tcp->queue(WorkerId{0}), state.range(0));
    ::recv(client.get(), reply.data(), reply.size(), MSG_WAITALL);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(tcp_round_trip)->ArgsProduct({{1, 16}, {0, 1}})->ArgNames({"pipeline", "stamps"});

// The queue by which the one flow of a datapath of two queues comes in.
uint32_t first_queue_of_first_flow(Datapath& datapath, const LineProtocol& protocol) {
  std::array<Request*, 1> burst{};
  for (uint32_t q = 0;; q = 1 - q) {
    datapath.queue(WorkerId{q}).poll(burst);
    if (protocol.live > 0) return q;
  }
}

// A request and its reply by one of two queues. Argument: 1 = the flow is moved to the other queue
// before each request, so that the difference is the cost of a move and the wait of the first
// request after it.
void tcp_steered_round_trip(benchmark::State& state) {
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 2;
  const auto tcp = TcpDatapath::open(options, protocol).value();
  const Fd client = connect_to(*tcp, state);
  if (!client.valid()) return;
  uint32_t at = first_queue_of_first_flow(*tcp, protocol);
  const std::string text = pipeline_of(1);
  std::string reply(text.size(), '\0');
  for (auto _ : state) {
    ::send(client.get(), text.data(), text.size(), 0);
    if (state.range(0) != 0) {
      at = 1 - at;
      tcp->steer(protocol.last_flow, WorkerId{at});
    }
    answer(tcp->queue(WorkerId{at}), 1);
    ::recv(client.get(), reply.data(), reply.size(), MSG_WAITALL);
  }
}
BENCHMARK(tcp_steered_round_trip)->Arg(0)->Arg(1)->ArgName("steer");

// The move of an idle flow alone, as the worker that wants the flow does it. Argument: open flows.
void tcp_steer(benchmark::State& state) {
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 2;
  const auto tcp = TcpDatapath::open(options, protocol).value();
  const Fd client = connect_to(*tcp, state);
  if (!client.valid()) return;
  uint32_t at = first_queue_of_first_flow(*tcp, protocol);
  const uint64_t flow = protocol.last_flow;
  std::vector<Fd> others;
  std::array<Request*, 1> burst{};
  while (protocol.live < state.range(0)) {
    others.push_back(connect_to(*tcp, state));
    for (const uint32_t q : {0u, 1u}) tcp->queue(WorkerId{q}).poll(burst);
  }
  for (auto _ : state) {
    at = 1 - at;
    tcp->steer(flow, WorkerId{at});
    state.PauseTiming();
    for (const uint32_t q : {0u, 1u}) tcp->queue(WorkerId{q}).poll(burst);
    state.ResumeTiming();
  }
}
BENCHMARK(tcp_steer)->Arg(1)->Arg(100)->ArgName("flows");

// A round trip without a socket: the cost of the project's own code.
void loopback_round_trip(benchmark::State& state) {
  LineProtocol protocol;
  LoopbackDatapath loopback({}, protocol);
  const uint64_t flow = loopback.connect();
  const std::string text = pipeline_of(state.range(0));
  std::string reply;
  for (auto _ : state) {
    loopback.submit(flow, text);
    answer(loopback.queue(WorkerId{0}), state.range(0));
    reply.clear();
    loopback.take(flow, reply);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(loopback_round_trip)->Arg(1)->Arg(16)->ArgName("pipeline");

// The look into the kernel before a conditional preemption, with nothing there.
void tcp_pending(benchmark::State& state) {
  LineProtocol protocol;
  const auto tcp = TcpDatapath::open({}, protocol).value();
  for (auto _ : state) benchmark::DoNotOptimize(tcp->queue(WorkerId{0}).pending());
}
BENCHMARK(tcp_pending);

}  // namespace
}  // namespace rubato
