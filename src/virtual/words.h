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

  Words() : words_(size_t{1} << kFirstBits) {}

  void look(uint32_t thread, const void* at) {
    const auto key = reinterpret_cast<uintptr_t>(at);
    Word* found = find(key);
    if (found->at != key) found = add(key);
    found->marks.set(mark_of(thread));
  }

  // Those that have looked before this; only `thread` has then.
  Marks write(uint32_t thread, const void* at) {
    Word* found = find(reinterpret_cast<uintptr_t>(at));
    const uint32_t mark = mark_of(thread);
    Marks others = found->marks;
    if (mark != kMarks - 1) others.reset(mark);
    if (others.none()) return others;
    const bool looked = found->marks.test(mark);
    found->marks.reset();
    found->marks.set(mark, looked);
    return others;
  }

 private:
  struct Word {
    uintptr_t at = 0;  // 0 = free, without marks
    Marks marks = 0;
  };
  static constexpr int kFirstBits = 12;

  // Open addressing, at most half full. Where the word is, or could be.
  Word* find(uintptr_t key) {
    const size_t mask = words_.size() - 1;
    size_t i = (key * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (words_[i].at != key && words_[i].at != 0) i = (i + 1) & mask;
    return &words_[i];
  }

  Word* add(uintptr_t key) {
    if (2 * ++used_ > words_.size()) {
      std::vector<Word> old(2 * words_.size());
      old.swap(words_);
      for (const Word& word : old) {
        if (word.at != 0) *find(word.at) = word;
      }
    }
    Word* const added = find(key);
    added->at = key;
    return added;
  }

  std::vector<Word> words_;
  size_t used_ = 0;
};

}  // namespace rubato::virt
