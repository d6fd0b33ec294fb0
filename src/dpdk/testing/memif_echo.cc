// SPDX-License-Identifier: Apache-2.0
//
// memif_echo SOCKET: the other process of memif_test.cc. Answers each datagram to 10.77.0.1:7777
// on a memif port with its own bytes until its standard input ends.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "datapath/datagram_datapath.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/time_source.h"
#include "dpdk/wire.h"

int main(int argc, char** argv) {
  using namespace rubato;
  if (argc != 2) return 2;
  DpdkWireOptions options;
  options.port = "net_memif0";
  options.arguments = std::string("--no-huge -m 96 --no-pci --no-shconf --no-telemetry "
                                  "--log-level=error --vdev=net_memif0,role=server,"
                                  "socket-abstract=no,socket=") + argv[1];
  options.bind = "10.77.0.1";
  options.udp_port = 7777;
  options.clock = &datapath_now;
  auto wire = dpdk::open_wire(options);
  if (!wire.ok()) {
    std::fprintf(stderr, "%s\n", wire.error().c_str());
    return 1;
  }
  rubato::testing::EchoDatagrams protocol;
  auto datapath = DatagramDatapath::open(std::move(*wire), protocol).value();
  DatapathQueue& queue = datapath->queue(WorkerId{0});
  std::puts("ready");
  std::fflush(stdout);
  pollfd input{0, POLLIN, 0};
  while (::poll(&input, 1, 0) == 0) {
    std::array<Request*, 32> burst;
    const uint32_t n = queue.poll(burst);
    for (uint32_t i = 0; i < n; ++i) {
      burst[i]->reply->append(burst[i]->payload);
      burst[i]->datapath->finish(*burst[i]);
    }
    queue.push();
    if (n == 0) ::usleep(50);
  }
  return 0;
}
