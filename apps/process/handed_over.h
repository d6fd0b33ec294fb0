// SPDX-License-Identifier: Apache-2.0
//
// Listening sockets that the service manager has opened and hands over (sd_listen_fds(3), systemd's
// socket activation): clients that come while no server runs wait for the next one.
#pragma once

#include <vector>

#include "base/result.h"

namespace rubato {

// The descriptors that LISTEN_PID and LISTEN_FDS name; none if they are not for this process. They
// are closed in child processes from now on, and the variables are taken away. Fails with one line
// if one is no listening TCP socket. Main thread, at start, once.
Result<std::vector<int>> handed_over_listeners();

bool is_tcp_listener(int fd);

}  // namespace rubato
