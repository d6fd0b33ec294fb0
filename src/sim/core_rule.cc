// SPDX-License-Identifier: Apache-2.0
#include "sim/core_rule.h"

#include <type_traits>

#include "overload/cores/all.h"
#include "policy/options.h"

namespace rubato::sim {
namespace {

template <overload::CoreAllocator A>
class RuleOf final : public CoreRule {
 public:
  RuleOf(const typename A::Config& config, uint32_t cores) : rule_(config), idle_(cores) {}

  Nanos interval() const override { return rule_.interval(); }
  bool parks() const override { return A::kParks; }
  overload::CoreChange change(const overload::CoreSignals& signals) override {
    return rule_.change(controller_, signals);
  }
  overload::Rest idle(uint32_t core, Nanos polled, CoreHost& host) override {
    return rule_.idle(idle_[core], polled, host);
  }
  void resumed(uint32_t core, CoreHost& host) override { rule_.resumed(idle_[core], host); }

 private:
  A rule_;
  typename A::Controller controller_{};
  std::vector<typename A::Idle> idle_;
};

}  // namespace

Result<std::unique_ptr<CoreRule>> make_core_rule(
    std::string_view name, const std::vector<std::pair<std::string, std::string>>& settings,
    uint32_t cores) {
  std::unique_ptr<CoreRule> rule;
  std::string error;
  const bool found = overload::with_allocator(name, [&]<class A>(std::type_identity<A>) {
    typename A::Config config{};
    for (const auto& [option, value] : settings) {
      if (const Status set = set_option<A>(config, option, value); !set) {
        error = set.error();
        return;
      }
    }
    rule = std::make_unique<RuleOf<A>>(config, cores);
  });
  if (!found) return Error{"cores: there is no '" + std::string(name) + "'"};
  if (rule == nullptr) return Error{"cores: " + error};
  return rule;
}

}  // namespace rubato::sim
