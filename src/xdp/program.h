// SPDX-License-Identifier: Apache-2.0
//
// FilterProgram: filter.bpf.c on an interface. It is attached by a BPF link, which the kernel takes
// away when its descriptor closes, so however the process ends nothing stays on the interface. One
// owner; move() and worker_of() on any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "datapath/tcp_socket.h"

struct bpf_object;

namespace rubato::xdp {

struct FilterOptions {
  uint32_t interface = 0;  // its index
  SocketAddress address;   // of the server, with its first port; no wildcard
  uint16_t ports = 1;
  std::array<uint8_t, 6> mac{};  // of the interface
  uint32_t workers = 1;
  uint32_t hardware_queues = 1;
};

class FilterProgram {
 public:
  FilterProgram() = default;
  FilterProgram(const FilterProgram&) = delete;
  FilterProgram& operator=(const FilterProgram&) = delete;
  ~FilterProgram();

  // Loads the program and deals the groups to the workers in turn; it is not attached yet. Fails
  // with one line that says what the kernel did not allow.
  Status load(const FilterOptions& options);
  // That worker's socket for the hardware queue.
  Status set_socket(uint32_t hardware_queue, uint32_t worker, int socket);
  // By the driver (`native`), or else before it. Fails where another program is there.
  Status attach();
  bool native() const { return native_; }

  // False: the group is there already.
  bool move(uint32_t group, uint32_t worker);
  uint32_t worker_of(uint32_t group) const;

 private:
  Status set_rules();

  FilterOptions options_;
  bpf_object* object_ = nullptr;
  std::atomic<uint64_t>* table_ = nullptr;  // of kSteeringGroups words
  Fd link_;
  bool native_ = false;
};

}  // namespace rubato::xdp
