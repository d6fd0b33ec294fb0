// SPDX-License-Identifier: Apache-2.0
#include "xdp/link_state.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace rubato::xdp {
namespace {

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

uint32_t hardware_queues_of(const Fd& socket, const std::string& interface) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request = request_for(interface);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return 1;
  return std::max(channels.combined_count + channels.rx_count, 1u);
}

}  // namespace

Result<LinkState> read_link(const Fd& socket, const std::string& interface) {
  ifreq index = request_for(interface);
  ifreq mtu = index;
  ifreq hardware = index;
  for (const auto& [what, request] : {std::pair(SIOCGIFINDEX, &index), {SIOCGIFMTU, &mtu},
                                      {SIOCGIFHWADDR, &hardware}}) {
    if (::ioctl(socket.get(), static_cast<unsigned long>(what), request) == 0) continue;
    if (errno == ENODEV) return Error{"af_xdp: there is no interface '" + interface + "'"};
    return Error{"af_xdp: the interface " + interface + ": " + std::strerror(errno)};
  }
  LinkState state{index.ifr_ifindex, mtu.ifr_mtu, {}, hardware_queues_of(socket, interface)};
  std::memcpy(state.mac.data(), hardware.ifr_hwaddr.sa_data, state.mac.size());
  return state;
}

std::string name_of_link(const Fd& socket, int index) {
  ifreq request{};
  request.ifr_ifindex = index;
  return ::ioctl(socket.get(), SIOCGIFNAME, &request) == 0 ? request.ifr_name : "";
}

void log_changes(const std::string& interface, const LinkState& first, const LinkState& before,
                 const LinkState& now) {
  const auto warn = [&](std::string_view message) {
    log_line(LogLevel::kWarning, LogEvent::kLink, message,
             {{"interface", interface}, {"hardware_queues", now.hardware_queues}});
  };
  if (now.index != first.index) {
    log_line(LogLevel::kWarning, LogEvent::kLink,
             "the interface is gone, and one that comes in its place takes a restart",
             {{"interface", interface}});
    return;
  }
  if (now.mac != first.mac && before.mac != now.mac) {
    warn("the interface has another Ethernet address, and until a restart the kernel gets what "
         "comes to it");
  }
  if (now.hardware_queues > std::max(first.hardware_queues, before.hardware_queues)) {
    warn("the interface has more hardware queues, and until a restart the kernel gets what comes "
         "by those");
  }
  if (now.mtu == before.mtu) return;
  log_line(LogLevel::kInfo, LogEvent::kLink, "replies fit the interface's packets as they are now",
           {{"interface", interface}, {"mtu", now.mtu}});
}

}  // namespace rubato::xdp
