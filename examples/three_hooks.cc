// SPDX-License-Identifier: Apache-2.0
//
// The three hooks of SBB, table 2: init, process, build_response. Answers what it was asked with
// the word it knows for it. Nobody says here that work is long: it becomes so by its age.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <rubato/rubato.hpp>

#include "work.h"

namespace {

struct Answer {
  bool known = false;
  std::string text;
};

class Dictionary {
 public:
  // Loads what the requests need. An error keeps the server from starting.
  rubato::Status init() {
    words_ = {{"long", "lang"}, {"short", "kurz"}, {"stolen", "gestohlen"}, {"time", "Zeit"}};
    return rubato::Done{};
  }

  Answer process(const rubato::Request& request) const {
    const std::string_view text = request.payload();
    const uint64_t steps = work_steps(text.data(), text.size());
    if (steps > 0) return {true, "worked " + std::to_string(work(steps) % 10)};
    const auto at = words_.find(text);
    if (at == words_.end()) return {};
    return {true, at->second};
  }

  void build_response(rubato::Request& request, const Answer& answer) const {
    request.reply(answer.known ? answer.text : "unknown: ");
    if (!answer.known) request.reply(request.payload());
  }

 private:
  std::map<std::string, std::string, std::less<>> words_;
};

}  // namespace

int main(int argc, char** argv) {
  Dictionary dictionary;
  rubato::Application app = rubato::hooks(dictionary);
  app.framing = rubato::Framing::kLines;
  rubato::Options options;
  options.port = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  options.handle_signals = true;
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) {
    std::fprintf(stderr, "three_hooks: %s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  const auto drained = server->run();
  if (!drained) std::fprintf(stderr, "three_hooks: %s\n", drained.error().c_str());
  return drained && *drained ? 0 : 1;
}
