// SPDX-License-Identifier: Apache-2.0
#include "base/option_text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "policy/all.h"

namespace rubato {
namespace {

std::string error_of(Synergy::Config& config, const char* name, const char* value) {
  const Status status = set_option<Synergy>(config, name, value);
  return status.ok() ? "" : status.error();
}

TEST(PolicyOptions, a_time_takes_a_unit_or_a_bare_number_in_its_own) {
  Ps::Config config;
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "5us").ok());
  EXPECT_EQ(config.quantum, Nanos::micros(5));
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "1ms").ok());
  EXPECT_EQ(config.quantum, Nanos::millis(1));
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "2.5").ok());
  EXPECT_EQ(config.quantum, Nanos(2'500));
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "750ns").ok());
  EXPECT_EQ(config.quantum, Nanos(750));
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "1s").ok());
  EXPECT_EQ(config.quantum, Nanos::seconds(1));
}

TEST(PolicyOptions, bounds_are_inclusive_in_every_unit) {
  Ps::Config config;
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "100ns").ok());
  EXPECT_TRUE(set_option<Ps>(config, "quantum", "0.1").ok());
  EXPECT_FALSE(set_option<Ps>(config, "quantum", "99ns").ok());
  EXPECT_FALSE(set_option<Ps>(config, "quantum", "1.1s").ok());
}

TEST(PolicyOptions, an_error_names_the_option_its_range_and_what_it_got) {
  Synergy::Config config;
  EXPECT_EQ(error_of(config, "quantum_initial", "2s"),
            "quantum_initial takes a time from 100ns to 1s (bare numbers are us), not '2s'");
  EXPECT_EQ(error_of(config, "levels", "9"), "levels takes a whole number from 1 to 8, not '9'");
}

TEST(PolicyOptions, a_refused_value_changes_nothing) {
  Synergy::Config config;
  for (const char* value : {"", " ", "x", "-1", "1.5", "3us", "nan", "inf", "1e99", "0x1", "1 "}) {
    EXPECT_NE(error_of(config, "quantum_factor", value), "") << "'" << value << "'";
    EXPECT_EQ(config.quantum_factor, Synergy::Config{}.quantum_factor);
  }
  for (const char* value : {"", "us", "5min", "5 us", "-1us", "nan", "inf", "5usx"}) {
    EXPECT_NE(error_of(config, "quantum_initial", value), "") << "'" << value << "'";
    EXPECT_EQ(config.quantum_initial, Synergy::Config{}.quantum_initial);
  }
}

TEST(PolicyOptions, a_misspelt_name_gets_a_suggestion) {
  Synergy::Config config;
  EXPECT_EQ(error_of(config, "quantum_facter", "2"),
            "synergy has no option 'quantum_facter'; did you mean quantum_factor?");
  EXPECT_EQ(error_of(config, "level", "2"), "synergy has no option 'level'; did you mean levels?");
}

TEST(PolicyOptions, a_name_like_no_other_gets_the_list) {
  Ps::Config config;
  EXPECT_EQ(set_option<Ps>(config, "colour", "red").error(),
            "ps has no option 'colour'; it has quantum");
  Fcfs::Config none;
  EXPECT_EQ(set_option<Fcfs>(none, "quantum", "1").error(),
            "fcfs has no option 'quantum'; it takes none");
}

TEST(PolicyOptions, numbers_and_flags_have_their_own_forms) {
  const OptionInfo ratio{"ratio", "", 0, 1, ""};
  double number = 0.25;
  EXPECT_TRUE(read_option(ratio, "0.5", number).ok());
  EXPECT_EQ(number, 0.5);
  EXPECT_EQ(read_option(ratio, "1.5", number).error(),
            "takes a number from 0 to 1, not '1.5'");
  const OptionInfo flag{"flag", "", 0, 1, ""};
  bool on = false;
  EXPECT_TRUE(read_option(flag, "on", on).ok());
  EXPECT_TRUE(on);
  EXPECT_TRUE(read_option(flag, "0", on).ok());
  EXPECT_FALSE(on);
  EXPECT_EQ(read_option(flag, "maybe", on).error(), "takes on or off, not 'maybe'");
  EXPECT_EQ(describe_option(flag, true).default_value, "on");
  EXPECT_EQ(describe_option(ratio, 0.5).kind, "number");
}

TEST(PolicyOptions, a_description_reads_as_it_would_be_typed) {
  const std::vector<OptionDescription> options = describe<Ps>();
  ASSERT_EQ(options.size(), 1u);
  EXPECT_STREQ(options[0].name, "quantum");
  EXPECT_EQ(options[0].kind, "time");
  EXPECT_EQ(options[0].low, "100ns");
  EXPECT_EQ(options[0].high, "1s");
  EXPECT_EQ(options[0].default_value, "10us");
}

TEST(PolicyOptions, every_default_and_every_bound_of_every_policy_is_accepted) {
  for_each_policy([]<class P>(std::type_identity<P>) {
    typename P::Config config{};
    for (const OptionDescription& option : describe<P>()) {
      SCOPED_TRACE(std::string(P::kName) + "." + option.name);
      EXPECT_STRNE(option.help, "");
      EXPECT_TRUE(set_option<P>(config, option.name, option.low).ok());
      EXPECT_TRUE(set_option<P>(config, option.name, option.high).ok());
      EXPECT_TRUE(set_option<P>(config, option.name, option.default_value).ok());
    }
  });
}

using Settings = std::vector<std::pair<std::string, std::string>>;

template <class P>
std::string error_of(const Settings& settings) {
  const auto config = read_options<P>(settings);
  return config.ok() ? "" : config.error();
}

TEST(PolicyOptions, of_synergy_that_another_one_voids_are_refused) {
  const std::vector<std::pair<Settings, std::string>> cases{
      {{{"reserve", "on"}, {"wait_queue", "off"}}, "reserve has no effect with wait_queue=off"},
      {{{"wait_queue", "off"}, {"reserve", "on"}}, "reserve has no effect with wait_queue=off"},
      {{{"waiting_by_type", "on"}, {"wait_queue", "off"}},
       "waiting_by_type has no effect with wait_queue=off"},
      {{{"levels", "2"}, {"wait_queue", "off"}}, "levels has no effect with wait_queue=off"},
      {{{"long_turn", "1ms"}, {"wait_queue", "off"}},
       "long_turn has no effect with wait_queue=off"},
      {{{"thresh_wqd", "9us"}, {"wait_queue", "off"}},
       "thresh_wqd has no effect with wait_queue=off"},
      {{{"levels", "2"}, {"waiting_by_type", "on"}},
       "levels has no effect with waiting_by_type=on"},
      {{{"slo_3", "5"}}, "slo_3 has no effect with waiting_by_type=off"},
      {{{"slo_rest", "5"}}, "slo_rest has no effect with waiting_by_type=off"},
      {{{"steal_threshold", "0"}, {"stealing", "off"}},
       "steal_threshold has no effect with stealing=off"},
      {{{"migrate_flows", "on"}, {"stealing", "off"}},
       "migrate_flows has no effect with stealing=off"},
      {{{"long_victims_first", "on"}, {"stealing", "off"}},
       "long_victims_first has no effect with stealing=off"},
      {{{"long_victims_first", "on"}, {"migrate_flows", "on"}},
       "long_victims_first has no effect with migrate_flows=on"},
      {{{"congested_quantum_factor", "9"}},
       "congested_quantum_factor has no effect with thresh_wqd=0"},
  };
  for (const auto& [settings, message] : cases) EXPECT_EQ(error_of<Synergy>(settings), message);
  for (const char* option : {"quantum_factor", "congested_quantum_factor", "quantum_initial",
                             "quantum_min", "quantum_max", "ema_shift", "ema_clip"}) {
    EXPECT_EQ(error_of<Synergy>({{"fixed_quantum", "5us"}, {"thresh_wqd", "9us"}, {option, "7"}}),
              std::string(option) + " has no effect with fixed_quantum");
  }
}

TEST(PolicyOptions, of_synergy_that_still_have_an_effect_are_taken) {
  const std::vector<Settings> cases{
      {{"slo_3", "5"}, {"waiting_by_type", "on"}},
      {{"thresh_wqd", "9us"}, {"congested_quantum_factor", "9"}},
      {{"fixed_quantum", "5us"}, {"reserve", "on"}, {"quantum_min", "2us"}},  // of reserved workers
      // Nothing is asked for, and nothing is done.
      {{"wait_queue", "off"}, {"long_turn", "0"}, {"reserve", "off"}},
      {{"fixed_quantum", "5us"}, {"ema_clip", "0"}, {"quantum_min", "0"}},
      // As it is anyway.
      {{"fixed_quantum", "5us"}, {"quantum_factor", "2"}},
  };
  for (const Settings& settings : cases) EXPECT_EQ(error_of<Synergy>(settings), "");
}

TEST(PolicyOptions, of_darc_that_the_rule_of_the_paper_voids_are_refused) {
  EXPECT_EQ(error_of<Darc>({{"literal", "on"}, {"behind", "5"}}),
            "behind has no effect with literal=on");
  EXPECT_EQ(error_of<Darc>({{"hold", "0.3"}, {"literal", "on"}}),
            "hold has no effect with literal=on");
  EXPECT_EQ(error_of<Darc>({{"hold", "0"}, {"literal", "on"}, {"drift", "0.2"}}), "");
  EXPECT_EQ(error_of<Darc>({{"hold", "0.3"}, {"behind", "5"}}), "");
}

TEST(PolicyOptions, of_sbb_that_another_one_voids_are_refused) {
  for (const char* option : {"block", "round", "victims", "light_to_busy", "busy_to_overloaded",
                             "overloaded_to_busy", "busy_to_light", "rounds", "rule_life"}) {
    EXPECT_EQ(error_of<Sbb>({{"enhanced", "off"}, {option, "7"}}),
              std::string(option) + " has no effect with enhanced=off");
    EXPECT_EQ(error_of<Sbb>({{option, "7"}}), "");
  }
  const std::vector<std::pair<Settings, std::string>> cases{
      {{{"enhanced", "off"}, {"published_thresholds", "on"}},
       "published_thresholds has no effect with enhanced=off"},
      {{{"victims", "4"}, {"stealing", "off"}}, "victims has no effect with stealing=off"},
      {{{"rule_life", "1ms"}, {"stealing", "off"}}, "rule_life has no effect with stealing=off"},
      {{{"rule_life", "1ms"}, {"migration", "off"}},
       "rule_life has no effect with migration=off"},
      {{{"published_thresholds", "on"}, {"busy_to_light", "2"}},
       "busy_to_light has no effect with published_thresholds=on"},
      // Not voided.
      {{{"stealing", "off"}, {"block", "4"}, {"round", "8"}}, ""},
      {{{"migration", "off"}, {"rounds", "5"}, {"published_thresholds", "on"}}, ""},
      {{{"published_thresholds", "on"}, {"rounds", "5"}, {"rule_life", "1ms"}}, ""},
  };
  for (const auto& [settings, message] : cases) EXPECT_EQ(error_of<Sbb>(settings), message);
}

TEST(PolicyOptions, of_altocumulus_that_another_one_voids_are_refused) {
  const std::vector<std::pair<Settings, std::string>> cases{
      {{{"quantum_factor", "3"}}, "quantum_factor has no effect with inside_synergy=off"},
      {{{"distribution", "2"}, {"upper_bound", "10"}},
       "distribution has no effect with upper_bound"},
      {{{"d", "1"}, {"upper_bound", "10"}}, "d has no effect with upper_bound"},
      {{{"a", "2"}}, "a has no effect with distribution=0"},
      {{{"b", "2"}, {"distribution", "1"}}, "b has no effect with distribution=1"},
      {{{"distribution", "2"}, {"c", "2"}}, "c has no effect with distribution=2"},
      // Not voided.
      {{{"inside_synergy", "on"}, {"quantum_factor", "3"}}, ""},
      {{{"distribution", "3"}, {"a", "2"}, {"b", "1"}, {"c", "2"}, {"d", "1"}}, ""},
      {{{"upper_bound", "0"}, {"distribution", "1"}}, ""},
      {{{"migrate", "off"}, {"bulk", "8"}}, ""},  // the baseline of a run with its settings
  };
  for (const auto& [settings, message] : cases) {
    EXPECT_EQ(error_of<Altocumulus>(settings), message);
  }
}

TEST(PolicyOptions, times_print_in_the_unit_that_fits) {
  EXPECT_EQ(format_time(Nanos()), "0ns");
  EXPECT_EQ(format_time(Nanos(999)), "999ns");
  EXPECT_EQ(format_time(Nanos(1'500)), "1.5us");
  EXPECT_EQ(format_time(Nanos::millis(20)), "20ms");
  EXPECT_EQ(format_time(Nanos::seconds(3)), "3s");
}

TEST(PolicyOptions, closest_name_gives_up_on_strangers) {
  const std::array<const char*, 3> names{"fcfs", "synergy", "ps"};
  EXPECT_EQ(closest_name("sinergy", names), "synergy");
  EXPECT_EQ(closest_name("fcf", names), "fcfs");
  EXPECT_EQ(closest_name("redis", names), "");
  EXPECT_EQ(closest_name("", {}), "");
}

}  // namespace
}  // namespace rubato
