// SPDX-License-Identifier: Apache-2.0
//
// Algorithm 5.1 of the Synergy thesis: a loop on every worker that receives, classifies, tells the
// scheduler when a request is long, and sends. Replies are the requests, with "worked" for work.
#include <cstdio>
#include <cstdlib>

#include <rubato/rubato.hpp>

#include "work.h"

namespace {

void server_loop() {
  while (rubato::Request request = rubato::recv()) {
    const std::string_view text = request.payload();
    const uint64_t steps = work_steps(text.data(), text.size());
    if (steps == 0) {
      request.reply(text);
    } else {
      const rubato::LongSection section;
      request.reply("worked " + std::to_string(work(steps) % 10));
    }
    rubato::send(request);
  }
}

}  // namespace

int main(int argc, char** argv) {
  rubato::Application app;
  app.loop = &server_loop;
  rubato::Options options;
  options.workers = 1;  // which long and short requests have to share; by default one for each CPU
  options.classify = rubato::Classify::kFeedback;
  options.port = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  options.handle_signals = true;
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) {
    std::fprintf(stderr, "server_loop: %s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  const auto drained = server->run();
  if (!drained) std::fprintf(stderr, "server_loop: %s\n", drained.error().c_str());
  std::printf("%llu preemptions\n", static_cast<unsigned long long>(server->stats().preemptions));
  return drained && *drained ? 0 : 1;
}
