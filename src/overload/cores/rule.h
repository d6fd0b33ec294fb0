// SPDX-License-Identifier: Apache-2.0
//
// CoreRule: an allocator of cores (overload/cores/all.h) chosen by name at run time, with the state
// of its controller and of every core. Of both hosts: change() by one context at a time, the rest
// by the core that it names. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/option_text.h"
#include "base/result.h"
#include "overload/cores/all.h"

namespace rubato::overload {

// An allocator's own options, and one that all have: machines differ in how long it takes to park
// a core and to wake it.
template <CoreAllocator A>
struct CoreOptions {
  static constexpr const char* kName = A::kName;

  struct Config {
    typename A::Config own{};
    double time_scale = 1;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_options<A>(c.own, v);
    v(OptionInfo{"time_scale", "", 0.01, 1000, "default times of the allocator, so many times"},
      c.time_scale);
  }
};

// What an idle core asks, see IdleHost in contract.h.
class CoreHost {
 public:
  virtual ~CoreHost() = default;
  virtual int64_t drained() = 0;
  virtual int64_t sessions() = 0;
  virtual int64_t outstanding() = 0;
  virtual int64_t cores() = 0;
  virtual bool claim_parking() = 0;
  virtual void release_parking() = 0;
  virtual void withhold(int64_t n) = 0;
  virtual void give_back(int64_t n) = 0;
};

using CoreSettings = std::map<std::string, std::string>;  // name and value of options

class CoreRule {
 public:
  virtual ~CoreRule() = default;

  // Fails with one line for a name or a setting that does not exist. Times that no setting gives
  // are the allocator's defaults times `time_scale`, unless that is a setting.
  static Result<std::unique_ptr<CoreRule>> make(std::string_view name, const CoreSettings& settings,
                                                uint32_t cores, double time_scale = 1);

  virtual Nanos interval() const = 0;
  virtual bool parks() const = 0;  // may a core park by itself?
  virtual CoreChange change(const CoreSignals& signals) = 0;
  virtual IdleAction idle(uint32_t core, Nanos polled, CoreHost& host) = 0;
  virtual void resumed(uint32_t core, CoreHost& host) = 0;
};

// "static, reactive, ...", for messages.
std::string core_rule_names();

}  // namespace rubato::overload
