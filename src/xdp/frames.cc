// SPDX-License-Identifier: Apache-2.0
#include "xdp/frames.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "mechanism/cpu/pause.h"

namespace rubato::xdp {

Frames::Frames(uint32_t count) : count_(count) {
  void* const memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<char*>(memory);
  for (uint32_t i = count; i > 0; --i) free_.push_back((i - 1) * kFrameBytes);
}

Frames::~Frames() {
  if (memory_ != nullptr) ::munmap(memory_, bytes());
}

void Frames::give(std::span<const uint64_t> frames) {
  const std::lock_guard guard(lock_);
  free_.insert(free_.end(), frames.begin(), frames.end());
}

size_t Frames::take(std::span<uint64_t> to) {
  const std::lock_guard guard(lock_);
  const size_t n = std::min(to.size(), free_.size());
  std::copy(free_.end() - static_cast<std::ptrdiff_t>(n), free_.end(), to.begin());
  free_.resize(free_.size() - n);
  return n;
}

size_t Frames::free() {
  const std::lock_guard guard(lock_);
  return free_.size();
}

HardwareQueue::~HardwareQueue() {
  if (umem_ != nullptr) xsk_umem__delete(umem_);
}

int HardwareQueue::start() {
  xsk_umem_config config{};
  config.fill_size = kFillFrames;
  config.comp_size = kCompletionFrames;
  config.frame_size = kFrameBytes;
  return -xsk_umem__create(&umem_, frames_.memory(), frames_.bytes(), &fill_, &completed_,
                           &config);
}

void HardwareQueue::refill(int socket, bool wait) {
  while (busy_.exchange(true, std::memory_order_acquire)) {
    if (!wait) return;
    cpu_pause();
  }
  give_back_completed();
  std::array<uint64_t, kBatch> frames;
  for (;;) {
    // The ring is as large as the number of frames that may be in it.
    const uint32_t room = std::min(xsk_prod_nb_free(&fill_, kBatch), kBatch);
    const size_t n = room == 0 ? 0 : frames_.take(std::span(frames).first(room));
    if (n == 0) break;
    put(std::span(frames).first(n));
  }
  if (xsk_ring_prod__needs_wakeup(&fill_) != 0) {
    ::recvfrom(socket, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
  busy_.store(false, std::memory_order_release);
}

void HardwareQueue::give_back_completed() {
  std::array<uint64_t, kBatch> frames;
  for (;;) {
    uint32_t at = 0;
    const uint32_t n = xsk_ring_cons__peek(&completed_, kBatch, &at);
    if (n == 0) return;
    for (uint32_t i = 0; i < n; ++i) {
      frames[i] = frame_at(*xsk_ring_cons__comp_addr(&completed_, at + i));
    }
    xsk_ring_cons__release(&completed_, n);
    const uint32_t filled = std::min(n, xsk_prod_nb_free(&fill_, n));
    put(std::span(frames).first(filled));
    if (filled < n) frames_.give(std::span(frames).subspan(filled, n - filled));
  }
}

void HardwareQueue::put(std::span<const uint64_t> frames) {
  const auto n = static_cast<uint32_t>(frames.size());
  uint32_t at = 0;
  if (n == 0 || xsk_ring_prod__reserve(&fill_, n, &at) != n) return;
  for (const uint64_t frame : frames) *xsk_ring_prod__fill_addr(&fill_, at++) = frame;
  xsk_ring_prod__submit(&fill_, n);
}

uint32_t HardwareQueue::filled() const {
  return __atomic_load_n(fill_.producer, __ATOMIC_ACQUIRE) -
         __atomic_load_n(fill_.consumer, __ATOMIC_ACQUIRE);
}

}  // namespace rubato::xdp
