// SPDX-License-Identifier: Apache-2.0
#include "datapath/sent_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "datapath/tcp_socket.h"

namespace rubato {
namespace {

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

Pages::Pages(size_t bytes, MemoryAccount* account) : share_(account) {
  const size_t size = whole_pages(bytes);
  if (!share_.resize(size)) return;
  void* const at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    static_cast<void>(share_.resize(0));
    return;
  }
  data_ = static_cast<char*>(at);
  size_ = size;
}

Pages::Pages(Pages&& other) noexcept
    : share_(std::move(other.share_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  share_ = std::move(other.share_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void Pages::unmap() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Pages PagePool::take(size_t bytes, MemoryAccount* account) {
  Pages found;
  if (lock_.try_lock()) {
    used_ = true;
    found = take_kept(bytes);
    lock_.unlock();
  }
  if (found.data() != nullptr) return found;
  Pages made(bytes, account);
  if (made.data() != nullptr || !lock_.try_lock()) return made;
  clear();  // so that what is kept does not stand in the way
  lock_.unlock();
  return Pages(bytes, account);
}

// The smallest that fits, but none that is much larger.
Pages PagePool::take_kept(size_t bytes) {
  Pages* best = nullptr;
  for (Pages& pages : kept_) {
    const bool fits = pages.size() >= bytes && pages.size() / 2 <= whole_pages(bytes);
    if (fits && (best == nullptr || pages.size() < best->size())) best = &pages;
  }
  if (best == nullptr) return {};
  kept_bytes_ -= best->size();
  std::swap(*best, kept_.back());
  Pages found = std::move(kept_.back());
  kept_.pop_back();
  return found;
}

void PagePool::give(Pages pages, const MemoryAccount* account) {
  if (account != nullptr && !account->has_plenty()) return;
  if (!lock_.try_lock()) return;
  used_ = true;
  if (kept_.size() < kKeptBlocks && kept_bytes_ + pages.size() <= kKeptBytes) {
    kept_bytes_ += pages.size();
    kept_.push_back(std::move(pages));
  }
  lock_.unlock();
}

void PagePool::trim() {
  if (!lock_.try_lock()) return;
  if (!std::exchange(used_, false)) clear();
  lock_.unlock();
}

void PagePool::clear() {
  kept_.clear();
  kept_bytes_ = 0;
}

char* SentPages::take(size_t bytes, std::string_view content) {
  if (unreported_ > 0) read_reports();
  Pages pages = host_.pool.take(bytes, account_);
  if (pages.data() == nullptr) return nullptr;
  if (!content.empty()) std::memcpy(pages.data(), content.data(), content.size());
  leave();
  present_.pages = std::move(pages);
  return present_.pages.data();
}

void SentPages::leave() {
  Block left = std::exchange(present_, {});
  if (left.pages.data() == nullptr) return;
  if (left.unreported == 0) return host_.pool.give(std::move(left.pages), account_);
  if (read_.size() == kBlocksRead) read_.erase(read_.begin());
  read_.push_back(std::move(left));
}

bool SentPages::holds(std::string_view bytes) const {
  const char* const from = present_.pages.data();
  return from != nullptr && bytes.data() >= from && bytes.data() < from + present_.pages.size();
}

ssize_t SentPages::send(std::string_view bytes) {
  if (!wants(bytes.size()) || !holds(bytes)) return send_bytes(socket_, bytes);
  const ssize_t n = send_in_place(socket_, bytes);
  if (n > 0) note_sent();
  if (n >= 0 || errno != ENOBUFS) return n;
  host_.counts.refused.fetch_add(1, std::memory_order_relaxed);
  return send_bytes(socket_, bytes);
}

void SentPages::note_sent() {
  if (present_.sends == 0) present_.first = next_send_;
  ++present_.sends;
  ++present_.unreported;
  ++next_send_;
  ++unreported_;
  host_.counts.sends.fetch_add(1, std::memory_order_relaxed);
}

void SentPages::give_back(bool all) {
  if (has_reports_.exchange(false, std::memory_order_relaxed) || (all && unreported_ > 0)) {
    read_reports();
  }
  if (all) read_.clear();
}

void SentPages::read_reports() {
  SendReport report;
  while (unreported_ > 0 && next_send_report(socket_, report)) {
    reported(report.first, report.last, report.copied);
  }
}

void SentPages::reported(uint32_t first, uint32_t last, bool copied) {
  const uint32_t count = last - first + 1;
  unreported_ -= std::min(unreported_, count);
  copied_in_a_row_ = copied ? std::min(copied_in_a_row_ + count, kCopiedInARow) : 0;
  if (copied) host_.counts.copied.fetch_add(count, std::memory_order_relaxed);
  settle(present_, first, count);
  for (Block& block : read_) {
    settle(block, first, count);
    if (block.unreported == 0) host_.pool.give(std::move(block.pages), account_);
  }
  std::erase_if(read_, [](const Block& block) { return block.unreported == 0; });
}

// The numbers wrap, so that only their distance has a meaning.
void SentPages::settle(Block& block, uint32_t first, uint32_t count) {
  const int64_t begin = static_cast<int32_t>(first - block.first);
  const int64_t from = std::max<int64_t>(begin, 0);
  const int64_t to = std::min<int64_t>(begin + count, block.sends);
  if (to > from) block.unreported -= static_cast<uint32_t>(to - from);
}

}  // namespace rubato
