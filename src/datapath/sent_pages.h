// SPDX-License-Identifier: Apache-2.0
//
// SentPages: the memory of large replies to one client, which the kernel sends in place instead of
// copying it (MSG_ZEROCOPY), and reads until the client has acknowledged it. PagePool: such memory
// that the kernel has done with, for the next replies.
//
// Each block is a mapping of its own. Unmapping it is safe at any time, as the kernel has its own
// references to the pages that it still has to send: a connection that ends, and a server that is
// short of memory, wait for nobody, and the client gets what was sent. Like the kernel's copies,
// such pages are bounded by the socket's send buffer. Only writing has to wait: a block is used
// again when the kernel has reported all sends from it.
//
// Where the kernel copies after all, as it does for clients on the same machine, it says so in its
// reports, and a copy that it makes later costs more than one that it makes at once. After
// kCopiedInARow such sends the connection sends no more in place.
//
// A SentPages belongs to its flow's owner. A PagePool may be used from any thread: it is guarded by
// a try-lock, and a thread that does not get the lock maps and unmaps. Units: bytes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/memory_account.h"
#include "datapath/try_lock.h"

namespace rubato {

struct ZerocopyCounts {
  std::atomic<uint64_t> sends{0};    // that the kernel took in place
  std::atomic<uint64_t> copied{0};   // of these, what it has copied after all
  std::atomic<uint64_t> refused{0};  // for want of memory for its reports or for locked pages
};

// A mapping, or none.
class Pages {
 public:
  Pages() = default;
  // No mapping where the account or the system refuses. Charged to `account`, which may be null.
  Pages(size_t bytes, MemoryAccount* account);
  ~Pages() { unmap(); }
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void unmap();

  MemoryShare share_;
  char* data_ = nullptr;
  size_t size_ = 0;
};

class PagePool {
 public:
  static constexpr size_t kKeptBytes = size_t{16} << 20;
  static constexpr size_t kKeptBlocks = 64;

  // A block of at least `bytes`; without a mapping if there is no memory.
  Pages take(size_t bytes, MemoryAccount* account);
  // Keeps the block, if there is room and plenty of memory.
  void give(Pages pages, const MemoryAccount* account);
  // Unmaps what it keeps, unless some was taken or given since the last call.
  void trim();

 private:
  Pages take_kept(size_t bytes);
  void clear();

  TryLock lock_;  // guards all below
  bool used_ = false;
  size_t kept_bytes_ = 0;
  std::vector<Pages> kept_;
};

class SentPages {
 public:
  static constexpr uint32_t kCopiedInARow = 4;
  // Blocks that the kernel reads, beside the present one. Of more the oldest is unmapped.
  static constexpr size_t kBlocksRead = 64;

  struct Host {
    PagePool pool;
    ZerocopyCounts counts;
  };

  // Of a connected socket with SO_ZEROCOPY, for replies of `least_bytes` or more. The socket and
  // the host outlive it, and so does the account, which may be null.
  SentPages(int socket, size_t least_bytes, Host& host, MemoryAccount* account)
      : socket_(socket), least_bytes_(least_bytes), host_(host), account_(account) {}
  SentPages(const SentPages&) = delete;
  SentPages& operator=(const SentPages&) = delete;

  // A buffer of so many bytes should have pages.
  bool wants(size_t bytes) const { return bytes >= least_bytes_ && !gave_up(); }
  // Makes a new block the present one, with a copy of `content` at its begin; it has `bytes` or
  // more. Null = there is no memory, and nothing has changed.
  char* take(size_t bytes, std::string_view content);
  // The present block is not needed any more.
  void leave();
  // The kernel reads some of the present block, so that nothing in it may be written again.
  bool is_read() const { return present_.unreported > 0; }

  // As send_bytes, in place if the bytes are in the present block and enough.
  ssize_t send(std::string_view bytes);

  // The kernel has reports. Any thread that keeps the flow from being freed.
  void note_reports() { has_reports_.store(true, std::memory_order_relaxed); }
  // Gives the blocks back that the kernel has reported to have done with, if note_reports was
  // called; `all`: the others, too.
  void give_back(bool all);

 private:
  struct Block {
    Pages pages;
    uint32_t first = 0;  // number of the first send from it; the kernel counts from 0, and wraps
    uint32_t sends = 0;
    uint32_t unreported = 0;  // of these sends
  };

  bool gave_up() const { return copied_in_a_row_ >= kCopiedInARow; }
  bool holds(std::string_view bytes) const;
  void note_sent();
  void read_reports();
  void reported(uint32_t first, uint32_t last, bool copied);
  static void settle(Block& block, uint32_t first, uint32_t count);

  const int socket_;
  const size_t least_bytes_;
  Host& host_;
  MemoryAccount* const account_;
  Block present_;
  std::vector<Block> read_;  // oldest first
  uint32_t next_send_ = 0;
  uint32_t unreported_ = 0;
  uint32_t copied_in_a_row_ = 0;
  std::atomic<bool> has_reports_{false};  // a hint; whoever sets it brings the owner an event
};

}  // namespace rubato
