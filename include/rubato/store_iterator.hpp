// SPDX-License-Identifier: Apache-2.0
//
// Iterators of RocksDB and LevelDB with a checkpoint at every step, so that a scan blocks no short
// task and ends when its result is not wanted any more. Header only; includes neither library.
//
//   rubato::StoreIterator it(db->NewIterator(rocksdb::ReadOptions()));
//   for (it.SeekToFirst(); it.Valid(); it.Next()) use(it.key(), it.value());
//
// Code compiled by librubato-pass.so (docs/PASS.md) has checkpoints in its loops and needs no
// wrapper. One step over many deleted keys takes long by itself; with RocksDB 9.9 or later
// librubato-rocksdb, if linked, has checkpoints there, too.
#pragma once

#include <memory>
#include <utility>

#include <rubato/feedback.hpp>

namespace rubato::inline v1 {

// Owns an iterator of rocksdb::DB or leveldb::DB, or of what derives from it. The calls that move
// it may switch and throw Cancelled as checkpoint() does; a store keeps no lock in between, and an
// iterator may go on in another thread. One task at a time.
template <class Iterator>
class StoreIterator {
 public:
  explicit StoreIterator(Iterator* iterator) : iterator_(iterator) {}
  explicit StoreIterator(std::unique_ptr<Iterator> iterator) : iterator_(std::move(iterator)) {}

  void SeekToFirst() { iterator_->SeekToFirst(), checkpoint(); }
  void SeekToLast() { iterator_->SeekToLast(), checkpoint(); }
  template <class Key>
  void Seek(const Key& target) {
    iterator_->Seek(target), checkpoint();
  }
  template <class Key>
  void SeekForPrev(const Key& target) {  // RocksDB only
    iterator_->SeekForPrev(target), checkpoint();
  }
  void Next() { iterator_->Next(), checkpoint(); }
  void Prev() { iterator_->Prev(), checkpoint(); }

  bool Valid() const { return iterator_->Valid(); }
  auto key() const { return iterator_->key(); }
  auto value() const { return iterator_->value(); }
  auto status() const { return iterator_->status(); }

  // The rest of its interface, without checkpoints.
  Iterator* get() const { return iterator_.get(); }

 private:
  std::unique_ptr<Iterator> iterator_;
};

}  // namespace rubato::inline v1
