// SPDX-License-Identifier: Apache-2.0
//
// Two network namespaces with a virtual link between them, which are gone with this object. The
// link has the addresses 10.77.0.1 and fd77::1 in the server's, 10.77.0.2 and fd77::2 in the
// client's. One thread at a time; the thread is in its first namespace at the end.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "datapath/tcp_socket.h"

namespace rubato::testing {

class Namespaces {
 public:
  explicit Namespaces(uint32_t hardware_queues)
      : first_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const std::string id = std::to_string(::getpid());
    server_ = "rubato-s" + id;
    client_ = "rubato-c" + id;
    const std::string queues = " numrxqueues " + std::to_string(hardware_queues) +
                               " numtxqueues " + std::to_string(hardware_queues);
    works_ = run("ip netns add " + server_) && run("ip netns add " + client_) &&
             run("ip link add vs netns " + server_ + queues + " type veth peer name vc netns " +
                 client_ + queues) &&
             set_up(server_, "vs", "1") && set_up(client_, "vc", "2");
  }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;
  ~Namespaces() {
    leave();
    run("ip netns del " + server_);
    run("ip netns del " + client_);
  }

  // False: they are not permitted here, or there is no `ip`.
  bool works() const { return works_; }
  bool enter_server() { return enter(server_); }
  bool enter_client() { return enter(client_); }
  void leave() { ::setns(first_.get(), CLONE_NEWNET); }

  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  bool run_in_server(const std::string& command) {
    return run("ip netns exec " + server_ + " " + command);
  }
  bool run_in_client(const std::string& command) {
    return run("ip netns exec " + client_ + " " + command);
  }

 private:
  static bool set_up(const std::string& name, const std::string& link, const std::string& host) {
    const std::string ip = "ip -n " + name + " ";
    return run(ip + "addr add 10.77.0." + host + "/24 dev " + link) &&
           run(ip + "addr add fd77::" + host + "/64 dev " + link + " nodad") &&
           run(ip + "link set lo up") && run(ip + "link set " + link + " up");
  }
  static bool enter(const std::string& name) {
    const Fd wanted(::open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    return wanted.valid() && ::setns(wanted.get(), CLONE_NEWNET) == 0;
  }

  const Fd first_;
  std::string server_;
  std::string client_;
  bool works_ = false;
};

}  // namespace rubato::testing
