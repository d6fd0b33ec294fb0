// SPDX-License-Identifier: Apache-2.0
#include "sim/cost_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace rubato::sim {
namespace {

std::string error_of(const std::string& text) {
  const auto costs = parse_costs(text, "f.toml");
  return costs.ok() ? "no error" : costs.error();
}

TEST(CostFile, what_is_left_out_is_ideal) {
  const auto costs = parse_costs("", "f.toml");
  ASSERT_TRUE(costs.ok());
  EXPECT_EQ(costs.value().name, "f.toml");
  Costs ideal;
  ideal.name = ideal.source = "f.toml";
  EXPECT_EQ(to_toml(costs.value()), to_toml(ideal));
}

TEST(CostFile, every_unit_is_understood) {
  const auto costs = parse_costs(
      "[machine]\nnetwork_rtt = '1.5us'\n[nic]\nrule_update = '1ms'\npcie = '850ns'\n", "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().network_rtt, Nanos(1500));
  EXPECT_EQ(costs.value().nic.rule_update, Nanos::millis(1));
  EXPECT_EQ(costs.value().nic.pcie, Nanos(850));
}

TEST(CostFile, a_price_is_one_cost_or_median_and_tail) {
  const auto costs = parse_costs("[worker]\nput = '20ns'\ntake = ['120ns', '900ns']\n", "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().worker.put.typical, Nanos(20));
  EXPECT_EQ(costs.value().worker.put.tail, Nanos(0));
  EXPECT_EQ(costs.value().worker.take.typical, Nanos(120));
  EXPECT_EQ(costs.value().worker.take.tail, Nanos(900));
}

TEST(CostFile, hyperthreads_have_a_number_a_slowdown_and_a_placement) {
  const auto costs = parse_costs(
      "[hyperthreads]\nthreads = 18\nslowdown = 120\nplacement = 'spread'\n", "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().hyperthreads.threads, 18u);
  EXPECT_EQ(costs.value().hyperthreads.slowdown, 120u);
  EXPECT_EQ(costs.value().hyperthreads.placement, Placement::kSpread);
  EXPECT_NE(error_of("[hyperthreads]\nslowdown = 90\n").find("hyperthreads.slowdown"),
            std::string::npos);
  for (const char* alone : {"slowdown = 120", "placement = 'spread'"}) {
    EXPECT_EQ(error_of(std::string("[hyperthreads]\n") + alone + "\n"),
              "f.toml: hyperthreads.slowdown and placement go with hyperthreads.threads");
  }
  EXPECT_EQ(error_of("[stalls]\nevery = '1ms'\n"),
            "f.toml: stalls.length is missing: a stall takes time");
  EXPECT_EQ(error_of("[hyperthreads]\nthreads = 18\n[stalls]\nevery = '1ms'\nlength = '9us'\n"),
            "f.toml: hyperthreads.threads and stalls do not go together");
}

TEST(CostFile, critical_sections_have_a_number_a_length_and_perhaps_a_lock) {
  const std::string sections = "[critical_sections]\ncount = 2\nlength = '60ns'\n";
  const auto costs = parse_costs(sections + "lock = 'yield'\n", "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().critical_sections,
            (Costs::CriticalSections{.count = 2, .length = Nanos(60), .lock = Lock::kYield}));
  EXPECT_EQ(error_of(sections + "lock = 'mutex'\n"),
            "f.toml:4: critical_sections.lock takes one of none, spin, yield");
  EXPECT_EQ(error_of("[critical_sections]\ncount = 1001\n"),
            "f.toml:2: critical_sections.count takes a whole number from 0 to 1000");
  for (const char* alone : {"count = 2", "length = '60ns'"}) {
    EXPECT_EQ(error_of(std::string("[critical_sections]\n") + alone + "\n"),
              "f.toml: critical_sections.count and length go together: both above 0, or neither");
  }
  EXPECT_EQ(error_of("[critical_sections]\nlock = 'spin'\n"),
            "f.toml: critical_sections.lock goes with critical_sections.count and length");
  const std::string stalls = "[stalls]\nevery = '1ms'\nlength = '9us'\n";
  for (const std::string& other : {stalls, std::string("[hyperthreads]\nthreads = 18\n")}) {
    EXPECT_EQ(error_of(sections + "lock = 'spin'\n" + other),
              "f.toml: critical_sections.lock goes neither with stalls nor with "
              "hyperthreads.threads");
    EXPECT_TRUE(parse_costs(sections + other, "f.toml").ok());
  }
}

constexpr const char* kWorld =
    "[world]\naccess = '8.24ns'\nclock_read = '20ns'\nsystem_call = '0.4us'\n"
    "wake_up = '3us'\npause = '40.001ns'\n";

TEST(CostFile, steps_of_the_world_are_to_the_picosecond) {
  const auto costs = parse_costs(kWorld, "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  const std::optional<Costs::World> world = costs.value().world;
  ASSERT_TRUE(world);
  EXPECT_EQ(*world, (Costs::World{Picos(8240), Nanos(20), Nanos(400), Nanos(3000), Picos(40001)}));
  const std::string text = to_toml(costs.value());
  EXPECT_NE(text.find("\n[world]\naccess = \"8.24ns\"\nclock_read = \"20ns\"\n"),
            std::string::npos) << text;
  EXPECT_NE(text.find("\npause = \"40.001ns\"\n"), std::string::npos) << text;
  EXPECT_EQ(parse_costs(text, "f.toml").value().world, world);
}

std::string error_of_world(const std::string& line, const std::string& instead) {
  std::string text = kWorld;
  text.replace(text.find(line), line.size(), instead);
  return error_of(text);
}

TEST(CostFile, steps_of_the_world_are_all_there_and_above_nothing) {
  EXPECT_EQ(error_of_world("pause = '40.001ns'\n", ""),
            "f.toml:1: world.pause is missing: this section has all of its keys");
  EXPECT_EQ(error_of_world("clock_read", "clock"), "f.toml:3: [world] has no key 'clock'");
  const std::string length = R"( takes a length of time with its unit, such as "850ns" or "1.2us")";
  EXPECT_EQ(error_of_world("'20ns'", "'-20ns'"), "f.toml:3: world.clock_read" + length);
  EXPECT_EQ(error_of_world("'20ns'", "'20'"), "f.toml:3: world.clock_read" + length);
  EXPECT_EQ(error_of_world("'20ns'", "20"), "f.toml:3: world.clock_read" + length);
  EXPECT_EQ(error_of_world("'20ns'", "'2ms'"), "f.toml:3: world.clock_read takes at most 1 ms");
  EXPECT_EQ(error_of_world("'20ns'", "'0ns'"),
            "f.toml: world.clock_read takes more than 0ns, as world.pause does");
  EXPECT_EQ(error_of_world("pause", "rest = '1ns'\npause"), "f.toml:6: [world] has no key 'rest'");
  EXPECT_EQ(error_of("[world]\n").substr(0, 22), "f.toml:1: world.access");
}

TEST(CostFile, words_choose) {
  const auto costs = parse_costs(
      "[nic]\ndelivery = 'polled'\nsteering = 'flow-director'\n[preemption]\nclock = 'self'\n",
      "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().nic.delivery, Delivery::kPolled);
  EXPECT_EQ(costs.value().nic.steering, Steering::kFlowDirector);
  EXPECT_EQ(costs.value().preemption.clock, Clock::kSelf);
}

TEST(CostFile, builtins_parse_and_are_called_as_their_file) {
  std::vector<std::string> names;
  for (const BuiltinCosts& builtin : builtin_costs()) {
    const auto costs = load_costs(std::string(builtin.name));
    ASSERT_TRUE(costs.ok()) << costs.error();
    EXPECT_EQ(costs.value().name, builtin.name);
    names.emplace_back(builtin.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"ac-int-msr", "ac-int", "ac-rss", "coresync-testbed",
                                             "ideal-polled", "ideal", "nanopu", "nebula",
                                             "persephone-fig1", "rpcvalet", "sbb-testbed",
                                             "synergy-testbed", "virtual"}));
}

TEST(CostFile, a_worker_looks_at_its_ring_before_its_poll_is_over) {
  const std::string look = "poll_look = '92ns'\n";
  EXPECT_EQ(error_of("[worker]\npoll = '91ns'\n" + look),
            "f.toml: worker.poll_look takes at most \"91ns\", as worker.poll does");
  EXPECT_EQ(error_of("[worker]\npoll = ['92ns', '95ns']\n" + look), "no error");
}

TEST(CostFile, the_builtin_ideal_is_the_default) {
  Costs ideal;
  ideal.world.emplace();
  EXPECT_EQ(to_toml(load_costs("ideal").value()), to_toml(ideal));
}

TEST(CostFile, builtins_hold_the_papers_figures) {
  const Costs synergy = load_costs("synergy-testbed").value();
  EXPECT_EQ(synergy.network_rtt, Nanos::micros(10));
  EXPECT_EQ(synergy.nic.ring_capacity, 128u);
  EXPECT_EQ(synergy.nic.burst, 8u);
  EXPECT_EQ(load_costs("persephone-fig1").value().worker.resume.typical, Nanos::micros(1));
  EXPECT_EQ(load_costs("sbb-testbed").value().nic.rule_update, Nanos::micros(10));
  for (const char* hardware : {"rpcvalet", "nebula", "nanopu"}) {
    EXPECT_EQ(load_costs(hardware).value().nic.pcie, Nanos(15)) << hardware;
  }
}

// VI, VII and VIII-E of Altocumulus.
TEST(CostFile, variants_of_altocumulus_differ_in_messages_and_in_who_hands_out) {
  const Costs hardware = load_costs("ac-int").value();
  EXPECT_EQ(hardware.noc.per_hop, Nanos(3));
  EXPECT_EQ(hardware.manager.step, Nanos(18));
  EXPECT_EQ(hardware.manager.put.typical, Nanos(0));
  Costs msr = load_costs("ac-int-msr").value();
  EXPECT_EQ(msr.manager.send.typical, Nanos(50));
  EXPECT_EQ(msr.manager.receive.typical, Nanos(50));
  msr.name = hardware.name;
  msr.manager = hardware.manager;
  EXPECT_EQ(to_toml(msr), to_toml(hardware));
  Costs rss = load_costs("ac-rss").value();
  EXPECT_EQ(rss.manager.put.typical, Nanos(35));
  EXPECT_EQ(rss.nic.steering, Steering::kRss);
  EXPECT_EQ(rss.nic.pcie, Nanos(400));
  rss.name = hardware.name;
  rss.nic = hardware.nic;
  rss.manager.put = hardware.manager.put;
  EXPECT_EQ(to_toml(rss), to_toml(hardware));
}

TEST(CostFile, what_is_written_is_read_back) {
  for (const BuiltinCosts& builtin : builtin_costs()) {
    const Costs costs = load_costs(std::string(builtin.name)).value();
    const std::string text = to_toml(costs);
    const auto again = parse_costs(text, "again.toml");
    ASSERT_TRUE(again.ok()) << again.error() << '\n' << text;
    EXPECT_EQ(to_toml(again.value()), text);
    EXPECT_EQ(again.value().name, costs.name);
    EXPECT_EQ(again.value().worker.steal.typical, costs.worker.steal.typical);
  }
}

TEST(CostFile, odd_texts_are_read_back) {
  Costs costs;
  costs.name = "tab\there";
  costs.source = "a \"quoted\" back\\slash \x01 \x7f \xc3\xa4";
  const auto again = parse_costs(to_toml(costs), "f.toml");
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again.value().name, costs.name);
  EXPECT_EQ(again.value().source, costs.source);
}

TEST(CostFile, notes_become_comments) {
  const std::string text = to_toml(Costs{}, {{"", "made here\nby hand"}, {"worker.put", "a ring"}});
  EXPECT_EQ(text.find("# made here\n# by hand\n\n[machine]\n"), 0u) << text;
  EXPECT_NE(text.find("\n# a ring\nput = \"0ns\"\n"), std::string::npos) << text;
  EXPECT_TRUE(parse_costs(text, "f.toml").ok());
}

TEST(CostFile, faults_are_named_by_file_and_line) {
  EXPECT_EQ(error_of("[worker]\nputt = '1ns'\n"), "f.toml:2: [worker] has no key 'putt'");
  EXPECT_EQ(error_of("\n[engine]\n"), "f.toml:2: there is no section 'engine'");
  EXPECT_EQ(error_of("put = '1ns'\n"), "f.toml:1: there is no section 'put'");
  EXPECT_EQ(error_of("worker = 3\n"), "f.toml:1: worker is a section: write [worker]");
  const std::string length = R"( takes a length of time with its unit, such as "850ns" or "1.2us")";
  EXPECT_EQ(error_of("[worker]\nlook = 5\n"), "f.toml:2: worker.look" + length);
  EXPECT_EQ(error_of("[worker]\nlook = '5'\n"), "f.toml:2: worker.look" + length);
  EXPECT_EQ(error_of("[worker]\nlook = '-5ns'\n"), "f.toml:2: worker.look" + length);
  EXPECT_EQ(error_of("[worker]\nlook = ['5ns', '6ns']\n"), "f.toml:2: worker.look" + length);
  EXPECT_EQ(error_of("[worker]\nlook = '2s'\n"), "f.toml:2: worker.look takes at most 1000 ms");
  EXPECT_EQ(error_of("[preemption]\nscan = '2ms'\n"),
            "f.toml:2: preemption.scan takes at most 1 ms");
  EXPECT_EQ(error_of("[worker]\nput = ['5ns']\n"),
            "f.toml:2: worker.put takes one cost, or median and p99.9");
  EXPECT_EQ(error_of("[worker]\nput = ['5ns', '4ns']\n"),
            "f.toml:2: worker.put has a p99.9 below its median");
  EXPECT_EQ(error_of("[nic]\ndelivery = 'soon'\n"),
            "f.toml:2: nic.delivery takes one of direct, polled");
  EXPECT_EQ(error_of("[nic]\nburst = 0\n"),
            "f.toml:2: nic.burst takes a whole number from 1 to 4096");
  EXPECT_EQ(error_of("[nic]\nburst = 'x'\n"),
            "f.toml:2: nic.burst takes a whole number from 1 to 4096");
  EXPECT_EQ(error_of("[machine]\nname = 4\n"), "f.toml:2: machine.name takes a text of one line");
}

TEST(CostFile, stalls_leave_some_of_the_time) {
  const auto costs = parse_costs(
      "[stalls]\nevery = '10ms'\nlength = '100us'\nlengths = 'exponential'\nhits = 'machine'\n",
      "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().stalls.every, Nanos::millis(10));
  EXPECT_EQ(costs.value().stalls.length, Nanos::micros(100));
  EXPECT_EQ(costs.value().stalls.lengths, StallLengths::kExponential);
  EXPECT_EQ(costs.value().stalls.hits, StallsHit::kMachine);
  EXPECT_EQ(error_of("[stalls]\nevery = '1ms'\nlength = '1ms'\n"),
            "f.toml: stalls.length takes less than stalls.every");
  EXPECT_EQ(error_of("[stalls]\nlength = '1us'\n"),
            "f.toml: stalls.every takes 1us or more, or is left out");
  EXPECT_EQ(error_of("[stalls]\nhits = 'all'\n"),
            "f.toml:2: stalls.hits takes one of core, machine");
  EXPECT_EQ(error_of("[stalls]\nevery = '2h'\n").substr(0, 22), "f.toml:2: stalls.every");
}

TEST(CostFile, the_first_fault_is_told) {
  EXPECT_EQ(error_of("[worker]\nx = 1\nlook = 5\n"), "f.toml:2: [worker] has no key 'x'");
  EXPECT_EQ(error_of("[worker]\nlook = 5\nx = 1\n").substr(0, 20), "f.toml:2: worker.loo");
}

TEST(CostFile, what_is_not_toml_is_one_line) {
  for (const char* text :
       {"[", "a = ", "[nic]\n[nic]\n", "[nic]\nburst = 1\nburst = 2\n", "\xff"}) {
    const std::string error = error_of(text);
    EXPECT_EQ(error.substr(0, 7), "f.toml:") << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(CostFile, an_unknown_name_lists_the_builtins) {
  const auto costs = load_costs("no/such");
  ASSERT_FALSE(costs.ok());
  EXPECT_EQ(costs.error(),
            "there is no cost file 'no/such'; built in are ac-int-msr, ac-int, ac-rss, "
            "coresync-testbed, ideal-polled, ideal, nanopu, nebula, persephone-fig1, rpcvalet, "
            "sbb-testbed, synergy-testbed, virtual");
}

TEST(CostFile, a_file_is_read) {
  const std::string path = testing::TempDir() + "rubato_costs.toml";
  std::ofstream(path) << "[machine]\nname = 'mine'\n";
  EXPECT_EQ(load_costs(path).value().name, "mine");
  std::ofstream(path) << std::string((1u << 20) + 1, '\n');
  EXPECT_FALSE(load_costs(path).ok());
}

}  // namespace
}  // namespace rubato::sim
