// SPDX-License-Identifier: Apache-2.0
//
// The memory of an AF_XDP wire and who owns each frame of it.
//
// Frames is the memory of a UMEM: frames of 4096 bytes, the first half for what arrives, the second
// for the answer. It is registered once per hardware queue, since several sockets on one queue must
// share a UMEM whose first socket is on that queue; so any frame can be used on any queue.
//
// A frame is in exactly one place: the fill ring of a hardware queue (the kernel may write to it),
// a socket's receive ring, a request, a socket's transmit ring or the kernel, a completion ring, or
// the free list. The kernel has one fill and one completion ring per hardware queue, whatever the
// number of sockets on it, and neither is safe for two threads. So they belong to a HardwareQueue
// with a lock, which any worker's poll takes to put completed frames back into the fill ring: no
// worker owns them, so none can starve the others while it is in a long request. The sockets' own
// rings belong to their workers.
//
// Units: bytes; an address is an offset in the UMEM.
#pragma once

#include <xdp/xsk.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato::xdp {

inline constexpr size_t kFrameBytes = 4096;
// The address of the frame that this address is in.
constexpr uint64_t frame_at(uint64_t address) { return address & ~uint64_t{kFrameBytes - 1}; }
inline constexpr uint32_t kFillFrames = 2048;      // of one hardware queue, in its fill ring
inline constexpr uint32_t kCompletionFrames = 4096;
inline constexpr uint32_t kFramesPerQueue = 8192;  // in all, for each hardware queue

class Frames {
 public:
  explicit Frames(uint32_t count);
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  ~Frames();

  bool valid() const { return memory_ != nullptr; }
  char* at(uint64_t address) const { return memory_ + address; }
  char* memory() const { return memory_; }
  uint64_t bytes() const { return uint64_t{count_} * kFrameBytes; }
  uint32_t count() const { return count_; }
  uint64_t frame_of(const void* inside) const {
    return frame_at(static_cast<uint64_t>(static_cast<const char*>(inside) - memory_));
  }

  // Any thread.
  void give(std::span<const uint64_t> frames);
  // How many of `to` it has filled.
  size_t take(std::span<uint64_t> to);
  size_t free();

 private:
  const uint32_t count_;
  char* memory_ = nullptr;
  SpinLock lock_;
  std::vector<uint64_t> free_;
};

// The rings that the sockets of one hardware queue share.
class HardwareQueue {
 public:
  explicit HardwareQueue(Frames& frames) : frames_(frames) {}
  HardwareQueue(const HardwareQueue&) = delete;
  HardwareQueue& operator=(const HardwareQueue&) = delete;
  ~HardwareQueue();

  // Registers the memory with the kernel. 0, or an errno.
  int start();
  xsk_umem* umem() { return umem_; }
  xsk_ring_prod& fill() { return fill_; }
  xsk_ring_cons& completed() { return completed_; }

  // Puts completed frames, and free ones if need be, into the fill ring. Does nothing if another
  // thread is at it and `wait` is not set. Any thread. `socket` is any on this queue.
  void refill(int socket, bool wait);
  // Frames that the kernel may write to, unless another thread refills.
  uint32_t filled() const;

 private:
  static constexpr uint32_t kBatch = 64;

  void give_back_completed();
  void put(std::span<const uint64_t> frames);

  Frames& frames_;
  xsk_umem* umem_ = nullptr;
  xsk_ring_prod fill_{};
  xsk_ring_cons completed_{};
  std::atomic<bool> busy_{false};  // acquire pairs with release of the holder before
};

}  // namespace rubato::xdp
