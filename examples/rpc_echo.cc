// SPDX-License-Identifier: Apache-2.0
//
// A handler behind Rubato RPC: what is written for other framings runs unchanged, and its clients
// know how much the server can take. clients/python/rubato_rpc.py is one.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <rubato/rubato.hpp>

#include "work.h"

namespace {

// Replies are the requests, with "worked" for work.
void handle(rubato::Request& request) {
  const std::string_view text = request.payload();
  const uint64_t steps = work_steps(text.data(), text.size());
  if (steps == 0) {
    request.reply(text);
  } else {
    request.reply("worked " + std::to_string(work(steps) % 10));
  }
}

}  // namespace

int main(int argc, char** argv) {
  rubato::Application app;
  app.framing = rubato::Framing::kRpc;
  app.handle = &handle;
  app.classify = [](std::string_view text) -> rubato::Class {
    return {.is_long = work_steps(text.data(), text.size()) > 0};
  };
  rubato::Options options;
  options.port = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  options.handle_signals = true;
  // About eight times what a request takes; from twice that wait on they are rejected.
  options.rpc_target_delay = std::chrono::milliseconds(1);
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) {
    std::fprintf(stderr, "rpc_echo: %s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  const auto drained = server->run();
  if (!drained) std::fprintf(stderr, "rpc_echo: %s\n", drained.error().c_str());
  return drained && *drained ? 0 : 1;
}
