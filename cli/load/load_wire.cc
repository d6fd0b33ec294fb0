// SPDX-License-Identifier: Apache-2.0
#include "cli/load/load_wire.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "datapath/datagram_address.h"
#include "load/socket.h"

namespace rubato::cli {
namespace {

bool has_address(const std::string& interface, const DatagramPeer& address) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  const int family = address.ipv6 ? AF_INET6 : AF_INET;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, one->ifa_addr,
                family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (interface == one->ifa_name && peer_of(storage).address == address.address) return true;
  }
  return false;
}

// Where no kernel chooses: of the dynamic ones (RFC 6335, section 6), each process others, since
// late replies may come for the one before it.
uint16_t first_port(uint32_t ports) {
  constexpr uint32_t kFirst = 65536 - kMostWirePorts;
  const uint32_t places = kMostWirePorts - ports + 1;
  return static_cast<uint16_t>(kFirst + static_cast<uint32_t>(::getpid()) * ports % places);
}

}  // namespace

Status check_way(const WireOptions& options, const load::Target& target) {
  const std::string interface = options.interface();
  if (interface.empty()) return Done{};
  if (::if_nametoindex(interface.c_str()) == 0) {
    return Error{"there is no interface '" + interface + "'"};
  }
  Result<load::Endpoint> to = load::resolve(target);
  if (!to) return Error{to.error()};
  Result<load::Endpoint> from = load::source_of(*to);
  if (!from) return Error{from.error()};
  if (has_address(interface, peer_of(from->address))) return Done{};
  return Error{"datagrams to " + to->text + " leave from " + from->text + ", which is not of " +
               interface};
}

load::OpenWire wire_opener(const WireOptions& options, const std::string& bind) {
  if (!options.takes_interface()) return nullptr;
  return [options, bind](const load::Endpoint& to,
                   uint32_t ports) -> Result<std::unique_ptr<DatagramWire>> {
    WireAddress address{.bind = bind, .port = 0, .ports = static_cast<uint16_t>(ports)};
    if (options.over_dpdk()) address.port = first_port(ports);
    if (!bind.empty()) return open_wire(options, address);
    Result<load::Endpoint> from = load::source_of(to);
    if (!from) return Error{from.error()};
    address.bind = from->text;
    return open_wire(options, address);
  };
}

}  // namespace rubato::cli
