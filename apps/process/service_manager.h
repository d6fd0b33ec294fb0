// SPDX-License-Identifier: Apache-2.0
//
// ServiceManager: systemd, or whoever else started this process and wants to hear how it does:
// sd_notify(3), spoken over the socket that NOTIFY_SOCKET names. Without one nothing is said. Any
// thread; never blocks.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"

namespace rubato {

class ServiceManager {
 public:
  // As the environment says.
  ServiceManager();

  // True if somebody listens.
  bool listens() const { return !address_.empty(); }
  // Lines of NAME=VALUE: "READY=1".
  void tell(std::string_view state) const;
  // The beginning and the end of reading the configuration again.
  void tell_reloading() const;

  // WATCHDOG=1 is wanted at least so often, or the process is killed; 0 = never.
  Nanos watchdog() const { return watchdog_; }

 private:
  std::string address_;  // of a socket; an abstract one begins with '\0'
  Nanos watchdog_;
};

}  // namespace rubato
