// SPDX-License-Identifier: Apache-2.0
//
// The cost of one request outside the engine: framing (parse and command lookup), dispatch, reply.
#include <benchmark/benchmark.h>

#include <string>

#include "kv_server/server/application.h"
#include "kv_server/testing/null_engine.h"
#include "kv_server/text/glob.h"

namespace rubato::kv {
namespace {

constexpr size_t kPipeline = 16;
constexpr size_t kFlushBytes = 16 * 1024;

// Runs a pipeline of the same request over and over.
void run_requests(benchmark::State& state, const std::string& one) {
  testing::NullEngine engine;
  KvApplication app(engine, KvOptions{});
  Peer peer;
  peer.flow = 1;
  const auto session = app.open(peer);
  std::string input;
  for (size_t i = 0; i < kPipeline; ++i) input += one;
  ReplyBuffer reply;
  for (auto _ : state) {
    std::string_view unread = input;
    for (size_t i = 0; i < kPipeline; ++i) {
      Request request;
      const Frame frame = session->frame(unread, request);
      request.payload = unread.substr(0, frame.length_bytes);
      request.session = session.get();
      request.reply = &reply;
      app.handle(request);
      unread.remove_prefix(frame.length_bytes);
    }
    if (reply.size() > kFlushBytes) reply.consume(reply.size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kPipeline));
}

void request_get(benchmark::State& state) {
  run_requests(state, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n");
}
void request_set(benchmark::State& state) {
  run_requests(state, "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n");
}
void request_incr(benchmark::State& state) {
  run_requests(state, "*2\r\n$4\r\nINCR\r\n$20\r\ncounter:000000000001\r\n");
}
void request_ping_inline(benchmark::State& state) { run_requests(state, "PING\r\n"); }

void glob(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(glob_match("user:*:name", "user:000123:name"));
}

BENCHMARK(request_get);
BENCHMARK(request_set);
BENCHMARK(request_incr);
BENCHMARK(request_ping_inline);
BENCHMARK(glob);

}  // namespace
}  // namespace rubato::kv
