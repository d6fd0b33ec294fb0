// SPDX-License-Identifier: Apache-2.0
//
// What a request costs on its way in and out, without an application: client and server take turns
// on one thread, so the figures hold the client's system calls too. Compare, do not add up.
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

// Arguments: pipeline depth, kernel time stamps.
void tcp_round_trip(benchmark::State& state) {
  LineProtocol protocol;
  TcpOptions options;
  options.kernel_timestamps = state.range(1) != 0;
  const auto tcp = TcpDatapath::open(options, protocol).value();
  const SocketAddress address = resolve("127.0.0.1", tcp->port()).value();
  const Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                address.length) != 0) {
    state.SkipWithError("cannot connect");
    return;
  }
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

// The same over no socket at all: what the project's own code costs.
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
