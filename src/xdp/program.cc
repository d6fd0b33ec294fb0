// SPDX-License-Identifier: Apache-2.0
#include "xdp/program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "datapath/datagram.h"
#include "xdp/filter_rules.h"

extern "C" {
// filter_object.S
extern const char rubato_xdp_filter[];
extern const char rubato_xdp_filter_end[];
}

namespace rubato::xdp {
namespace {

constexpr size_t kTableBytes = kSteeringGroups * sizeof(uint64_t);

Error refused(const std::string& what, int error) {
  return {"af_xdp: " + what + ": " + std::strerror(error)};
}

bpf_map* map_of(bpf_object* object, const char* name) {
  return bpf_object__find_map_by_name(object, name);
}

}  // namespace

FilterProgram::~FilterProgram() {
  if (table_ != nullptr) ::munmap(table_, kTableBytes);
  bpf_object__close(object_);
}

Status FilterProgram::load(const FilterOptions& options) {
  options_ = options;
  libbpf_set_print(nullptr);  // what fails is told by errno
  const auto size = static_cast<size_t>(rubato_xdp_filter_end - rubato_xdp_filter);
  object_ = bpf_object__open_mem(rubato_xdp_filter, size, nullptr);
  if (object_ == nullptr) return refused("the program cannot be read", errno);
  bpf_map__set_max_entries(map_of(object_, "sockets"), options.workers * options.hardware_queues);
  if (Status set = set_rules(); !set.ok()) return set;
  if (const int failed = bpf_object__load(object_); failed != 0) {
    return refused("the program cannot be loaded (it takes CAP_BPF and CAP_NET_ADMIN)", -failed);
  }
  void* const mapped = ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              bpf_map__fd(map_of(object_, "groups")), 0);
  if (mapped == MAP_FAILED) return refused("the table cannot be mapped", errno);
  table_ = static_cast<std::atomic<uint64_t>*>(mapped);
  for (uint32_t group = 0; group < kSteeringGroups; ++group) {
    table_[group].store(group % options.workers, std::memory_order_relaxed);
  }
  return Done{};
}

Status FilterProgram::set_rules() {
  rubato_xdp_rules rules{};
  rules.workers = options_.workers;
  std::memcpy(rules.mac, options_.mac.data(), sizeof rules.mac);
  const sockaddr_storage& address = options_.address.storage;
  rules.port = options_.address.port();
  rules.ports = options_.ports;
  rules.takes_ipv6 = address.ss_family == AF_INET6;
  if (rules.takes_ipv6 != 0) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof in);
    std::memcpy(rules.address6, &in.sin6_addr, sizeof rules.address6);
  } else {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof in);
    rules.address4 = in.sin_addr.s_addr;
    rules.takes_ipv4 = 1;
  }
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object_) {
    if (std::string_view(bpf_map__name(map)).ends_with(".rodata")) break;
  }
  const int failed = map == nullptr ? -ENOENT
                                    : bpf_map__set_initial_value(map, &rules, sizeof rules);
  return failed == 0 ? Status(Done{}) : refused("the program takes no rules", -failed);
}

Status FilterProgram::set_socket(uint32_t hardware_queue, uint32_t worker, int socket) {
  const uint32_t at = hardware_queue * options_.workers + worker;
  const int failed =
      bpf_map_update_elem(bpf_map__fd(map_of(object_, "sockets")), &at, &socket, BPF_ANY);
  return failed == 0 ? Status(Done{}) : refused("a socket cannot be registered", -failed);
}

Status FilterProgram::attach() {
  const bpf_program* const program = bpf_object__find_program_by_name(object_, "filter");
  for (const uint32_t mode : {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE}) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = mode;
    const int link = bpf_link_create(bpf_program__fd(program),
                                     static_cast<int>(options_.interface), BPF_XDP, &options);
    if (link >= 0) {
      link_ = Fd(link);
      native_ = mode == XDP_FLAGS_DRV_MODE;
      return Done{};
    }
    if (link == -EBUSY || link == -EEXIST) {
      return Error{"af_xdp: the interface has an XDP program already; only one can be there"};
    }
    if (mode == XDP_FLAGS_SKB_MODE) return refused("the program cannot be attached", -link);
  }
  return Done{};
}

bool FilterProgram::move(uint32_t group, uint32_t worker) {
  return table_[group].exchange(worker, std::memory_order_release) != worker;
}

uint32_t FilterProgram::worker_of(uint32_t group) const {
  return static_cast<uint32_t>(table_[group].load(std::memory_order_relaxed));
}

}  // namespace rubato::xdp
