// SPDX-License-Identifier: Apache-2.0
#include "process/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace rubato {
namespace {

// CAP_BPF is newer than the headers of some systems.
constexpr std::array kGivenUp{CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, 39};

}  // namespace

Status give_up_datapath_capabilities() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  long failed = ::syscall(SYS_capget, &header, sets.data());
  for (const int capability : kGivenUp) {
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    const uint32_t bit = CAP_TO_MASK(capability);
    __user_cap_data_struct& set = sets[CAP_TO_INDEX(static_cast<size_t>(capability))];
    set.effective &= ~bit;
    set.permitted &= ~bit;
    set.inheritable &= ~bit;
  }
  if (failed == 0) failed = ::syscall(SYS_capset, &header, sets.data());
  return failed == 0 ? Status(Done{})
                     : Error{std::string("cannot give up capabilities: ") + std::strerror(errno)};
}

}  // namespace rubato
