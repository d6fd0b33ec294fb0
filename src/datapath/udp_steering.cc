// SPDX-License-Identifier: Apache-2.0
#include "datapath/udp_steering.h"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "datapath/datagram.h"

namespace rubato {
namespace {

constexpr size_t kTableBytes = kSteeringGroups * sizeof(uint64_t);

Error refused(const char* what) { return {std::string(what) + ": " + std::strerror(errno)}; }

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

Fd make_map(uint32_t type, uint32_t value_bytes, uint32_t entries, uint32_t flags) {
  bpf_attr map{};
  map.map_type = type;
  map.key_size = sizeof(uint32_t);
  map.value_size = value_bytes;
  map.max_entries = entries;
  map.map_flags = flags;
  return Fd(bpf(BPF_MAP_CREATE, map));
}

bpf_insn instruction(int code, int to, int from, int offset, int32_t number) {
  bpf_insn made{};
  made.code = static_cast<uint8_t>(code);
  made.dst_reg = static_cast<uint8_t>(to & 0xf);
  made.src_reg = static_cast<uint8_t>(from & 0xf);
  made.off = static_cast<int16_t>(offset);
  made.imm = number;
  return made;
}

bpf_insn assign(int to, int from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
bpf_insn set(int to, int32_t number) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number);
}
bpf_insn call(int32_t helper) { return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }

}  // namespace

UdpSteering::~UdpSteering() {
  if (table_ != nullptr) ::munmap(table_, kTableBytes);
}

Status UdpSteering::attach(std::span<const int> sockets) {
  // A mapped array has 8 bytes per value, whatever their size.
  const Fd table = make_map(BPF_MAP_TYPE_ARRAY, 8, kSteeringGroups, BPF_F_MMAPABLE);
  if (!table.valid()) return refused("a BPF map");
  void* const mapped =
      ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED, table.get(), 0);
  if (mapped == MAP_FAILED) return refused("a mapped BPF map");
  auto* const words = static_cast<std::atomic<uint64_t>*>(mapped);
  const auto queues = static_cast<uint32_t>(sockets.size());
  for (uint32_t i = 0; i < kSteeringGroups; ++i) words[i].store(i % queues);
  Fd program;
  Status done = fill_sockets(sockets);
  if (done.ok()) done = load_program(table, program);
  const int fd = program.get();
  if (done.ok() && ::setsockopt(sockets[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &fd,
                                sizeof fd) != 0) {
    done = refused("a program for SO_REUSEPORT");
  }
  if (done.ok()) {
    table_ = words;
  } else {
    ::munmap(mapped, kTableBytes);
  }
  return done;
}

Status UdpSteering::fill_sockets(std::span<const int> sockets) {
  sockets_ = make_map(BPF_MAP_TYPE_REUSEPORT_SOCKARRAY, 8, static_cast<uint32_t>(sockets.size()),
                      0);
  if (!sockets_.valid()) return refused("a BPF map of sockets");
  for (uint32_t i = 0; i < sockets.size(); ++i) {
    const auto socket = static_cast<uint64_t>(sockets[i]);
    bpf_attr update{};
    update.map_fd = static_cast<uint32_t>(sockets_.get());
    update.key = reinterpret_cast<uint64_t>(&i);
    update.value = reinterpret_cast<uint64_t>(&socket);
    if (bpf(BPF_MAP_UPDATE_ELEM, update) != 0) return refused("a socket in a BPF map");
  }
  return Done{};
}

// The data of the context begins at the UDP header, whose first field is the sender's port. A
// datagram without a whole header, and one whose queue has no socket, is left to the kernel's hash.
Status UdpSteering::load_program(const Fd& table, Fd& program) {
  constexpr int kData = offsetof(sk_reuseport_md, data);
  constexpr int kEnd = offsetof(sk_reuseport_md, data_end);
  const int load_word = BPF_LDX | BPF_MEM | BPF_DW;
  const int jump_greater = BPF_JMP | BPF_JGT | BPF_X;
  const int add = BPF_ALU64 | BPF_ADD | BPF_K;
  const std::array<bpf_insn, 26> code{{
      assign(6, 1),                                                 // r6 = the context
      instruction(load_word, 2, 6, kData, 0),                     // r2 = the UDP header
      instruction(load_word, 3, 6, kEnd, 0),
      assign(4, 2),
      instruction(add, 4, 0, 0, 2),
      instruction(jump_greater, 4, 3, 19, 0),                     // to the end: too short
      instruction(BPF_LDX | BPF_MEM | BPF_H, 7, 2, 0, 0),         // r7 = the sender's port
      instruction(BPF_ALU | BPF_END | BPF_TO_BE, 7, 0, 0, 16),
      instruction(BPF_ALU64 | BPF_AND | BPF_K, 7, 0, 0, kSteeringGroups - 1),
      instruction(BPF_STX | BPF_MEM | BPF_W, 10, 7, -4, 0),
      assign(2, 10),
      instruction(add, 2, 0, 0, -4),
      instruction(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, table.get()),
      instruction(0, 0, 0, 0, 0),
      call(BPF_FUNC_map_lookup_elem),                             // r0 = the group's word
      instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 9, 0),         // to the end: cannot be
      instruction(load_word, 3, 0, 0, 0),
      instruction(BPF_STX | BPF_MEM | BPF_W, 10, 3, -8, 0),
      assign(3, 10),
      instruction(add, 3, 0, 0, -8),
      instruction(BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, 0, sockets_.get()),
      instruction(0, 0, 0, 0, 0),
      assign(1, 6),
      set(4, 0),
      call(BPF_FUNC_sk_select_reuseport),
      set(0, SK_PASS),
  }};
  std::array<bpf_insn, code.size() + 1> whole{};
  std::copy(code.begin(), code.end(), whole.begin());
  whole.back() = instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_SK_REUSEPORT;
  load.insns = reinterpret_cast<uint64_t>(whole.data());
  load.insn_cnt = static_cast<uint32_t>(whole.size());
  load.license = reinterpret_cast<uint64_t>("Apache-2.0");
  program = Fd(bpf(BPF_PROG_LOAD, load));
  if (!program.valid()) return refused("a BPF program");
  return Done{};
}

bool UdpSteering::move(uint32_t group, uint32_t queue) {
  return table_[group].exchange(queue, std::memory_order_release) != queue;
}

uint32_t UdpSteering::queue_of(uint32_t group) const {
  return static_cast<uint32_t>(table_[group].load(std::memory_order_relaxed));
}

}  // namespace rubato
