// SPDX-License-Identifier: Apache-2.0
//
// An engine that does nothing in no time: what is left of a request is the cost of reading,
// finding and answering it. For benches.
#pragma once

#include "kv_server/engine/engine.h"

namespace rubato::kv::testing {

class NullEngine final : public Engine {
 public:
  Outcome get(std::string_view, ValueSink sink) override {
    sink("xxx");
    return Outcome::kDone;
  }
  Outcome get_versioned(std::string_view, VersionedSink sink) override {
    sink("xxx", 1);
    return Outcome::kDone;
  }
  Outcome info(std::string_view, Info&) override { return Outcome::kNone; }
  Outcome set(std::string_view, std::string_view, const SetOptions&) override {
    return Outcome::kDone;
  }
  Outcome erase(std::string_view) override { return Outcome::kNone; }
  Outcome update(std::string_view, Updater updater) override {
    updater(Current{});
    return Outcome::kDone;
  }
  Outcome update_many(std::span<const std::string_view>, ManyUpdater) override {
    return Outcome::kNone;
  }
  Outcome scan(uint64_t& cursor, size_t, KeyVisitor) override {
    cursor = 0;
    return Outcome::kDone;
  }
  Outcome keys(const KeyRange&, KeyVisitor) override { return Outcome::kDone; }
  Outcome range(const KeyRange&, uint64_t, ItemVisitor) override { return Outcome::kDone; }
  Outcome count(const KeyRange&, uint64_t& out) override {
    out = 0;
    return Outcome::kDone;
  }
  Outcome flush() override { return Outcome::kDone; }
  Outcome random_key(ValueSink) override { return Outcome::kNone; }
  uint64_t size() const override { return 0; }
  uint64_t expire_some(uint32_t) override { return 0; }
  EngineStats stats() const override { return {}; }
  void set_maxmemory(uint64_t) override {}
  Outcome exclusively(FunctionRef<void()> body) override {
    body();
    return Outcome::kDone;
  }
  Outcome get_many(std::span<const std::string_view> keys, ManySink sink) override {
    for (size_t i = 0; i < keys.size(); ++i) sink(i, std::nullopt);
    return Outcome::kDone;
  }
  void set_eviction(Eviction) override {}
  std::string_view name() const override { return "null"; }
};

}  // namespace rubato::kv::testing
