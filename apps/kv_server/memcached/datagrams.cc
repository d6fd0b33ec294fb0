// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/datagrams.h"

#include "kv_server/server/protected_mode.h"
#include "runtime/app.h"

namespace rubato::kv {
namespace {

constexpr std::string_view kSeveral = "SERVER_ERROR multi-packet request not supported\r\n";
constexpr std::string_view kNoLine = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kNoData = "CLIENT_ERROR bad data chunk\r\n";
constexpr std::string_view kTooLarge = "SERVER_ERROR reply too large for UDP\r\n";

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
  const std::string_view commands = datagram.substr(kMemcachedUdpHeaderBytes);
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

void MemcachedDatagrams::refuse(Request& request) {
  if (request.at_once) return answer(request);
  of(request).call.refuse(request);
}

void MemcachedDatagrams::answer(Request& request) {
  MemcachedDatagram& own = of(request);
  server().errors().count(own.error);
  if (own.call.wants_reply()) request.reply->append(own.error);
}

void MemcachedDatagrams::run(Request& request) {
  note_command(request.type);
  const uint64_t mark = request.reply->mark();
  MemcachedDatagram& own = of(request);
  std::string_view left = request.payload.substr(kMemcachedUdpHeaderBytes);
  MemcachedCall::Found found = own.first;
  while (found.length > 0) {
    own.call.run(request);
    left.remove_prefix(found.length);
    if (left.empty() || own.call.closes()) break;
    checkpoint();
    found = own.call.find(left);
  }
  if (found.length == 0 && own.call.wants_reply()) request.reply->append(cut_short(found));
  if (!request.reply->overflowed() || request.reply->starved()) return;
  server().errors().count(kTooLarge);
  static_cast<void>(request.reply->take_back(mark));
  request.reply->append(kTooLarge);
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
