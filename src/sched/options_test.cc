// SPDX-License-Identifier: Apache-2.0
#include "sched/options.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "base/option_text.h"

namespace rubato {
namespace {

std::string error_of(const char* name, const char* value) {
  SchedulerOptions options;
  const Status set = set_option<SchedulerOptions>(options, name, value);
  return set.ok() ? "" : set.error();
}

TEST(SchedulerOptions, each_has_a_name_of_its_own_and_a_help) {
  std::set<std::string> names;
  for (const OptionDescription& option : describe<SchedulerOptions>()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_TRUE(std::islower(static_cast<unsigned char>(option.help[0]))) << option.help;
    EXPECT_FALSE(std::string(option.help).ends_with('.')) << option.help;
  }
}

TEST(SchedulerOptions, every_default_is_a_value_that_the_option_takes) {
  for (const OptionDescription& option : describe<SchedulerOptions>()) {
    if (option.kind == "settings") continue;
    EXPECT_EQ(error_of(option.name, option.default_value.c_str()), "");
  }
}

TEST(SchedulerOptions, every_choice_sets_a_value_of_its_own) {
  for (const OptionDescription& option : describe<SchedulerOptions>()) {
    for (const OptionChoice& choice : option.choices) {
      SchedulerOptions options;
      ASSERT_TRUE(set_option<SchedulerOptions>(options, option.name, choice.name).ok());
      for (const OptionDescription& now : describe<SchedulerOptions>(options)) {
        if (now.name != std::string(option.name)) continue;
        EXPECT_EQ(now.default_value, choice.name);
      }
    }
  }
}

TEST(SchedulerOptions, an_error_says_what_is_taken) {
  EXPECT_EQ(error_of("classify", "size"),
            "classify takes feedback, age, learned or declared, not 'size'");
  EXPECT_EQ(error_of("drain_limit", "2h"),
            "drain_limit takes a time from 0ns to 3600s (bare numbers are s), not '2h'");
  EXPECT_EQ(error_of("stack", "8KiB"), "stack takes a size from 16KiB to 64MiB, not '8KiB'");
  EXPECT_EQ(error_of("overload_budget", "2"),
            "overload_budget takes a number from 0 to 1, not '2'");
  EXPECT_EQ(error_of("target_dealy", "1ms"),
            "the scheduler has no option 'target_dealy'; did you mean target_delay?");
  EXPECT_EQ(error_of("cores_set", "poll"), "cores_set takes name=value, not 'poll'");
}

TEST(SchedulerOptions, sizes_have_binary_units_and_are_bytes_without_one) {
  SchedulerOptions options;
  ASSERT_TRUE(set_option<SchedulerOptions>(options, "stack", "128KiB").ok());
  EXPECT_EQ(options.stack_bytes, size_t{128} * 1024);
  ASSERT_TRUE(set_option<SchedulerOptions>(options, "stack", "32768").ok());
  EXPECT_EQ(options.stack_bytes, size_t{32} * 1024);
}

TEST(SchedulerOptions, a_setting_that_is_given_again_is_set_anew) {
  SchedulerOptions options;
  for (const char* setting : {"quantum=1us", "levels=2", "quantum=2us"}) {
    ASSERT_TRUE(set_option<SchedulerOptions>(options, "set", setting).ok());
  }
  EXPECT_EQ(options.policy_settings, (OptionSettings{{"levels", "2"}, {"quantum", "2us"}}));
}

}  // namespace
}  // namespace rubato
