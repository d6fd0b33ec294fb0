// SPDX-License-Identifier: Apache-2.0
#include <rubato/rubato.hpp>

int main() {
  rubato::Options options;
  options.port = 7000;
  rubato::Application app;
  app.framing = rubato::Framing::kLines;
  app.handle = [](rubato::Request& request) {
    for (char c : request.payload()) {
      request.reply({&c, 1});  // any work
      rubato::checkpoint();    // short requests overtake here
    }
  };
  auto server = rubato::Server::create(options, std::move(app));
  return server && server->run() ? 0 : 1;
}
