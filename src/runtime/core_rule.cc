// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_rule.h"

#include <utility>

#include "base/limits.h"
#include "overload/cores/all.h"
#include "policy/options.h"

namespace rubato {
namespace {

constexpr int64_t kSlower = 10;  // than the machines that the allocators were made for

template <class A>
class RuleOf final : public CoreRule {
 public:
  RuleOf(const typename A::Config& config, uint32_t workers) : allocator_(config), idle_(workers) {}

  Nanos interval() const override { return allocator_.interval(); }
  overload::CoreChange change(const overload::CoreSignals& signals) override {
    return allocator_.change(controller_, signals);
  }
  overload::Rest idle(WorkerId worker, Nanos polled, IdleCores& host) override {
    return allocator_.idle(idle_[worker.value].state, polled, host);
  }
  void resumed(WorkerId worker, IdleCores& host) override {
    allocator_.resumed(idle_[worker.value].state, host);
  }

 private:
  struct alignas(limits::kCacheLineBytes) Seat {
    typename A::Idle state{};
  };

  A allocator_;
  typename A::Controller controller_{};
  std::vector<Seat> idle_;
};

template <class A>
typename A::Config live_defaults() {
  typename A::Config config;
  visit_options<A>(config, [](const OptionInfo&, auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, Nanos>) {
      field = field * kSlower;
    }
  });
  return config;
}

template <class A>
Result<std::unique_ptr<CoreRule>> make_rule(const std::map<std::string, std::string>& settings,
                                            uint32_t workers) {
  typename A::Config config = live_defaults<A>();
  for (const auto& [name, value] : settings) {
    Status set = set_option<A>(config, name, value);
    if (!set.ok()) return Error{"cores_set: " + set.error()};
  }
  return std::unique_ptr<CoreRule>(std::make_unique<RuleOf<A>>(config, workers));
}

}  // namespace

Result<std::unique_ptr<CoreRule>> CoreRule::make(
    const std::string& name, const std::map<std::string, std::string>& settings,
    uint32_t workers) {
  Result<std::unique_ptr<CoreRule>> made =
      Error{"cores: '" + name + "' is not one of adaptive, " + core_rule_names()};
  overload::with_allocator(name, [&]<class A>(std::type_identity<A>) {
    made = make_rule<A>(settings, workers);
  });
  return made;
}

std::string core_rule_names() {
  std::string names;
  overload::for_each_allocator([&]<class A>(std::type_identity<A>) {
    names += (names.empty() ? "" : ", ") + std::string(A::kName);
  });
  return names;
}

}  // namespace rubato
