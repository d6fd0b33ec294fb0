// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/datagrams.h"

#include "kv_server/server/protected_mode.h"
#include "mechanism/clock/clock.h"
#include "runtime/app.h"

namespace rubato::kv {
namespace {

constexpr std::string_view kSeveral = "SERVER_ERROR multi-packet request not supported\r\n";
constexpr std::string_view kNoLine = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kNoData = "CLIENT_ERROR bad data chunk\r\n";
constexpr std::string_view kTooLarge = "SERVER_ERROR reply too large for UDP\r\n";
constexpr std::string_view kCancelled = "SERVER_ERROR cancelled, may have run\r\n";

struct MemcachedDatagram final : RequestData {
  explicit MemcachedDatagram(Server& server) : call(server) {}

  MemcachedCall call;
  MemcachedCall::Found first;
  std::string_view error;  // the reply, whatever the commands are; empty = they are run
};

MemcachedDatagram& of(const Request& request) {
  return static_cast<MemcachedDatagram&>(*request.data);
}

uint32_t number_at(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(static_cast<uint8_t>(bytes[at]) << 8 |
                               static_cast<uint8_t>(bytes[at + 1]));
}

void put_number(uint32_t number, char* to) {
  to[0] = static_cast<char>(number >> 8);
  to[1] = static_cast<char>(number);
}

std::string_view commands_of(std::string_view datagram) {
  return datagram.substr(kMemcachedUdpHeaderBytes);
}

// What is missing of a command whose bytes end too soon.
std::string_view cut_short(const MemcachedCall::Found& found) {
  return found.wanted == 0 ? kNoLine : kNoData;
}

}  // namespace

std::unique_ptr<RequestData> MemcachedDatagrams::make_request_data() {
  return std::make_unique<MemcachedDatagram>(server());
}

Frame MemcachedDatagrams::frame(std::string_view datagram, Request& request) {
  if (datagram.size() <= kMemcachedUdpHeaderBytes) return {};
  const std::string_view commands = commands_of(datagram);
  if (commands[0] < 'a' || commands[0] > 'z') return {};
  const bool is_whole = number_at(datagram, 4) == 1;
  if (!is_whole && number_at(datagram, 2) != 0) return {};
  MemcachedDatagram& own = of(request);
  const MemcachedCall::Found first = own.first = own.call.find_first(commands);
  own.error = !is_whole ? kSeveral : first.length == 0 ? cut_short(first) : std::string_view();
  request.at_once = !own.error.empty();
  request.type = request.at_once ? kUnknownCommand : first.type;
  // What is behind a command of the control plane is not of it.
  request.group = group_of(first.is_control && first.length == commands.size());
  return {FrameState::kComplete, datagram.size()};
}

// The commands of the datagram have not been run and will not be.
void MemcachedDatagrams::refuse(Request& request) {
  if (request.at_once) return answer(request);
  const bool wanted = look_over(request, [this](const MemcachedCall::Found& found) {
    server().calls().refuse_unstarted(found.type);
    server().errors().count_refusal();
  });
  if (wanted) MemcachedCall::say_overloaded(request);
}

void MemcachedDatagrams::answer(Request& request) {
  const std::string_view error = of(request).error;
  server().errors().count(error);
  if (look_over(request, [](const MemcachedCall::Found&) {})) request.reply->append(error);
}

void MemcachedDatagrams::run(Request& request) {
  const uint64_t mark = request.reply->mark();
  MemcachedCall& call = of(request).call;
  const MemcachedCall::Found last = run_all(request);
  if (request.cancelled) {
    const bool wanted = look_over(request, [](const MemcachedCall::Found&) {});
    return fail(request, mark, wanted ? kCancelled : std::string_view());
  }
  if (last.length == 0) {
    server().errors().count(cut_short(last));
    if (call.wants_reply()) request.reply->append(cut_short(last));
  }
  call.shrink();
  if (request.reply->overflowed() && !request.reply->starved()) fail(request, mark, kTooLarge);
}

// Returns the last command that was found, which is not complete if the datagram ends too soon.
MemcachedCall::Found MemcachedDatagrams::run_all(Request& request) {
  MemcachedDatagram& own = of(request);
  note_command(request.type);
  own.call.run(request);
  MemcachedCall::Found found = own.first;
  std::string_view left = commands_of(request.payload);
  for (;;) {
    left.remove_prefix(found.length);
    if (left.empty() || own.call.closes()) return found;
    checkpoint();
    if (request.cancelled) return found;
    found = own.call.find(left);
    if (found.length == 0) return found;
    const Instant begun = now();
    own.call.run(request);
    server().calls().run_queued(found.type, now() - begun);
  }
}

// The error, if there is one, takes the place of all replies.
void MemcachedDatagrams::fail(Request& request, uint64_t mark, std::string_view error) {
  static_cast<void>(request.reply->take_back(mark));
  if (error.empty()) return;
  server().errors().count(error);
  request.reply->append(error);
}

// Calls `each` with each whole command. Returns whether any wants a reply.
template <class F>
bool MemcachedDatagrams::look_over(Request& request, F&& each) {
  MemcachedCall& call = of(request).call;
  std::string_view left = commands_of(request.payload);
  MemcachedCall::Found found = call.find_first(left);
  bool wanted = call.wants_reply();
  while (found.length > 0) {
    each(found);
    left.remove_prefix(found.length);
    if (left.empty() || call.closes()) break;
    found = call.find(left);
    wanted = wanted || call.wants_reply();
  }
  call.shrink();
  return wanted;
}

bool MemcachedDatagramPort::serves(const DatagramPeer& peer) const {
  return !server_.config().is_protected() || is_loopback(peer);
}

void MemcachedDatagramPort::put_header(std::string_view request, uint32_t number, uint32_t count,
                                       char* to) const {
  to[0] = request[0];
  to[1] = request[1];
  put_number(number, to + 2);
  put_number(count, to + 4);
  put_number(0, to + 6);
}

}  // namespace rubato::kv
