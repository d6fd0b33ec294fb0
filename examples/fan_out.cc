// SPDX-License-Identifier: Apache-2.0
//
// A request that asks three services at once and answers when all of them have. What waits for them
// holds no worker. Usage: fan_out PORT SERVICE SERVICE SERVICE (ports of line servers, such as
// own_sockets).
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <rubato/rubato.hpp>

std::string ask(uint16_t service, const std::string& line) {
  const rubato::Deadline deadline(std::chrono::seconds(5));
  auto socket = rubato::Socket::connect("127.0.0.1", service, deadline);
  if (!socket) return socket.error();
  if (auto sent = socket->write(line + "\n", deadline); !sent) return sent.error();
  auto reply = socket->read_until('\n', deadline);
  return reply ? reply->substr(0, reply->size() - 1) : reply.error();
}

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: fan_out PORT SERVICE SERVICE SERVICE\n"), 2;
  std::array<uint16_t, 4> ports;
  for (size_t i = 0; i < 4; ++i) ports[i] = static_cast<uint16_t>(std::atoi(argv[i + 1]));
  auto tasks = rubato::Executor::create();
  rubato::Application app;
  app.framing = rubato::Framing::kLines;
  app.handle = [&](rubato::Request& request) {
    const auto answers = std::make_shared<rubato::Channel<std::string>>(3);
    for (size_t i = 1; i < 4; ++i) {
      const auto one = [=, service = ports[i], line = std::string(request.payload())] {
        answers->push(ask(service, line));
      };
      if (!tasks->execute(one)) answers->push("refused");
    }
    for (size_t i = 1; i < 4; ++i) request.reply(*answers->pop() + "; ");  // as they come
  };
  rubato::Options options;
  options.port = ports[0];
  options.handle_signals = true;
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) return std::fprintf(stderr, "%s\n", server.error().c_str()), 1;
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  return server->run() ? 0 : 1;
}
