// SPDX-License-Identifier: Apache-2.0
//
// Words: which threads have looked at a word of memory since it was last written, those whom the
// next write concerns. Threads from number 127 on share a mark. For the library's own files.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato::virt {

class Words {
 public:
  static constexpr uint32_t kMarks = 128;
  using Marks = std::bitset<kMarks>;
  static uint32_t mark_of(uint32_t thread) { return std::min(thread, kMarks - 1); }

  Words() : words_(size_t{1} << kFirstBits), mask_(words_.size() - 1) {}

  void look(uint32_t thread, const void* at) {
    const auto key = reinterpret_cast<uintptr_t>(at);
    Word* found = &words_[place_of(key)];  // most are where they are sought first
    if (found->at != key) [[unlikely]] found = find_or_add(key);
    found->marks[mark_of(thread)] = true;
  }

  // Those that have looked before this; only `thread` has then.
  Marks write(uint32_t thread, const void* at) {
    const auto key = reinterpret_cast<uintptr_t>(at);
    if (!some_looked_[filter_of(key)]) return {};
    Word* found = find(key);
    const uint32_t mark = mark_of(thread);
    Marks others = found->marks;
    if (mark != kMarks - 1) others[mark] = false;
    if (others.none()) return others;
    const bool looked = found->marks[mark];
    found->marks.reset();
    found->marks[mark] = looked;
    return others;
  }

 private:
  struct Word {
    uintptr_t at = 0;  // 0 = free, without marks
    Marks marks = 0;
  };
  static constexpr int kFirstBits = 12;
  static constexpr int kFilterBits = 13;

  static uint64_t mixed(uintptr_t key) { return key * 0x9e3779b97f4a7c15u; }
  static size_t filter_of(uintptr_t key) { return mixed(key) >> (64 - kFilterBits); }
  // Open addressing, at most half full. Where the word is, or could be.
  size_t place_of(uintptr_t key) const { return (mixed(key) >> 32) & mask_; }
  Word* find(uintptr_t key) {
    size_t i = place_of(key);
    while (words_[i].at != key && words_[i].at != 0) i = (i + 1) & mask_;
    return &words_[i];
  }

  [[gnu::noinline]] Word* find_or_add(uintptr_t key) {
    if (Word* found = find(key); found->at == key) return found;
    if (2 * ++used_ > words_.size()) grow();
    some_looked_[filter_of(key)] = true;
    Word* const added = find(key);
    added->at = key;
    return added;
  }
  void grow() {
    std::vector<Word> old(2 * words_.size());
    old.swap(words_);
    mask_ = words_.size() - 1;
    for (const Word& word : old) {
      if (word.at != 0) *find(word.at) = word;
    }
  }

  std::bitset<size_t{1} << kFilterBits> some_looked_;  // no bit: nobody at any of these words
  std::vector<Word> words_;
  size_t mask_;  // one less than there are
  size_t used_ = 0;
};

}  // namespace rubato::virt
