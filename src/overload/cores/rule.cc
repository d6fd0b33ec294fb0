// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/rule.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/name_list.h"

namespace rubato::overload {
namespace {

template <CoreAllocator A>
class RuleOf final : public CoreRule {
 public:
  RuleOf(const typename A::Config& config, uint32_t cores) : allocator_(config), idle_(cores) {}

  Nanos interval() const override { return allocator_.interval(); }
  bool parks() const override { return A::kParks; }
  CoreChange change(const CoreSignals& signals) override {
    return allocator_.change(controller_, signals);
  }
  IdleAction idle(uint32_t core, Nanos polled, CoreHost& host) override {
    return allocator_.idle(idle_[core].state, polled, host);
  }
  void resumed(uint32_t core, CoreHost& host) override {
    allocator_.resumed(idle_[core].state, host);
  }

 private:
  struct alignas(limits::kCacheLineBytes) CoreState {
    typename A::Idle state{};
  };

  A allocator_;
  typename A::Controller controller_{};
  std::vector<CoreState> idle_;
};

template <CoreAllocator A>
Result<typename A::Config> config_of(const CoreSettings& settings, double time_scale) {
  typename CoreOptions<A>::Config config;
  config.time_scale = time_scale;
  for (const auto& [name, value] : settings) {
    if (Status set = set_option<CoreOptions<A>>(config, name, value); !set) {
      return Error{"cores_set: " + set.error()};
    }
  }
  visit_options<A>(config.own, [&](const OptionInfo& info, auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, Nanos>) {
      if (settings.contains(info.name)) return;
      field = Nanos(std::llround(static_cast<double>(field.count()) * config.time_scale));
    }
  });
  return config.own;
}

}  // namespace

Result<std::unique_ptr<CoreRule>> CoreRule::make(std::string_view name,
                                                 const CoreSettings& settings, uint32_t cores,
                                                 double time_scale) {
  Result<std::unique_ptr<CoreRule>> made =
      Error{"cores: '" + std::string(name) + "' is not one of " + core_rule_names()};
  with_allocator(name, [&]<class A>(std::type_identity<A>) {
    auto config = config_of<A>(settings, time_scale);
    if (config) {
      made = std::unique_ptr<CoreRule>(std::make_unique<RuleOf<A>>(*config, cores));
    } else {
      made = Error{config.error()};
    }
  });
  return made;
}

std::string core_rule_names() {
  std::string names;
  for_each_allocator([&]<class A>(std::type_identity<A>) {
    add_name(names, A::kName);
  });
  return names;
}

}  // namespace rubato::overload
