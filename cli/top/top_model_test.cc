// SPDX-License-Identifier: Apache-2.0
#include "cli/top/top_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/top/testing/sample.h"

namespace rubato::cli {
namespace {

using testing::Sample;
using testing::state_text;

Sample sample(double time_s) {
  const auto times = [time_s](double each) { return static_cast<uint64_t>(time_s * each); };
  return {.time_s = time_s,
          .types = {{"get", {{Nanos::micros(20), times(1'000)}}, time_s * 4'000},
                    {"scan", {{Nanos::millis(3), times(10)}}, time_s * 100}},
          .refused = times(2),
          .blocked = times(5)};
}

Observation seen(double time_s, const std::string& server = "a:1") {
  return {time_s, server, state_text(sample(time_s)), ""};
}

TopModel watched() {
  TopModel model({"a:1"});
  model.take(seen(10));
  model.take(seen(12));
  return model;
}

std::string drawn(const TopModel& model, int columns = 80, int rows = 24) {
  Screen screen(columns, rows);
  model.draw(screen);
  return screen.plain();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TopModel, shows_a_server_on_a_screen_of_80_by_24) {
  EXPECT_EQ(drawn(watched()), R"(a:1  synergy  pid 7  0.2.0
1010/s  busy 40 %, awake 1.5 of 2 workers  preempted 10.0/s  stolen 0/s
connections 4  in flight 3  refused 2.0/s  delay short 12.0us long 0
memory 32.0M (1.00M of 64.0M)  fibers 12  queues  inbox 5 (deepest 3)
credits issued 10, in all 64  sessions 2, without credit 1
refused  delay short 2.0/s
types 2                               last 2.0 s           last 2.0 s
TYPE           RATE/s   WAIT SERVICE    P50    P99  P99.9    P50    P99  P99.9
all              1010 4.06us  49.5us 20.1us 20.1us 3.00ms 20.1us 20.1us 3.00ms
get              1000 4.00us  20.0us 20.1us 20.1us 20.1us 20.1us 20.1us 20.1us
scan             10.0 10.0us  3.00ms 3.00ms 3.00ms 3.00ms 3.00ms 3.00ms 3.00ms
workers 2  preempted requests that wait 2
  0  40 % scan 1.25ms       1  40 % sleeps
held up by one slice, last 2.0 s
  get            behind scan              5.0/s, 500us each
plan
  workers look at their own inbox first






by rate | q quit s sort r reverse / filter f freeze : set tab server jk scroll
)");
}

TEST(TopModel, fits_into_smaller_and_larger_screens) {
  for (const auto& [columns, rows] : {std::pair{40, 8}, {60, 15}, {200, 60}}) {
    const std::string text = drawn(watched(), columns, rows);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), rows);
    EXPECT_TRUE(has(text, "synergy")) << text;
  }
  EXPECT_EQ(drawn(watched(), 39, 24), "too small: 40x8 at least\n");
  EXPECT_EQ(drawn(watched(), 0, 0), "");
}

TEST(TopModel, tells_what_it_had_no_room_for) {
  Sample many{.time_s = 1};
  for (int i = 0; i < 100; ++i) many.types.push_back({"type" + std::to_string(i), {}});
  TopModel model({"a:1"});
  model.take({1, "a:1", state_text(many), ""});
  EXPECT_TRUE(has(drawn(model), "types 100  (+89 more)")) << drawn(model);
  size_t rows = 0;
  for (const TypeRow& type : model.servers()[0].view->types) {
    if (has(drawn(model), "\n" + type.name + " ")) ++rows;
  }
  EXPECT_EQ(rows, 11u);
  for (int i = 0; i < 5; ++i) model.press("j");
  EXPECT_TRUE(has(drawn(model), "(5 above)")) << drawn(model);
  for (int i = 0; i < 500; ++i) model.press("\033[B");
  EXPECT_EQ(model.settings().skipped, 99u);
}

TEST(TopModel, sorts_filters_and_reverses) {
  TopModel model = watched();
  const auto first_type = [&model] {
    return chosen_types(*model.servers()[0].view, model.settings()).front().name;
  };
  EXPECT_EQ(first_type(), "get");  // by rate
  model.press("r");
  EXPECT_EQ(first_type(), "scan");
  EXPECT_TRUE(has(drawn(model), "by rate, reversed | q quit"));
  EXPECT_TRUE(drawn(model).ends_with(": set tab server\n")) << "a key that is cut short";
  model.press("rssss");  // name, wait, service, p99
  EXPECT_EQ(model.settings().sort, SortBy::kP99);
  EXPECT_EQ(first_type(), "scan");
  EXPECT_TRUE(model.press("/geq\177"));  // q is a letter here
  EXPECT_TRUE(has(drawn(model), "filter: ge_"));
  EXPECT_EQ(first_type(), "get");
  model.press("\r");
  EXPECT_TRUE(has(drawn(model), "only 'ge', by p99"));
  model.press("\033");
  EXPECT_EQ(first_type(), "scan");
  EXPECT_FALSE(model.press("q"));
}

TEST(TopModel, an_option_that_is_typed_is_wanted_once) {
  TopModel model = watched();
  model.press(":");
  model.press("qx\177uantum=5us");
  EXPECT_TRUE(has(drawn(model), "set: quantum=5us_"));
  EXPECT_FALSE(model.take_wanted());
  model.press("\r");
  EXPECT_EQ(model.take_wanted(), "quantum=5us");
  EXPECT_FALSE(model.take_wanted());
  model.tell("set quantum=5us");
  EXPECT_TRUE(has(drawn(model), "\nset quantum=5us"));
  model.press("s");
  EXPECT_FALSE(has(drawn(model), "quantum"));
  for (const char* left : {"policy=ps\033", "\r"}) {
    model.press(":");
    model.press(left);
    EXPECT_FALSE(model.take_wanted());
    EXPECT_FALSE(has(drawn(model), "set: "));
  }
}

TEST(TopModel, frozen_it_stays_and_then_shows_what_came_meanwhile) {
  TopModel model = watched();
  const std::string before = drawn(model);
  model.press("f");
  model.take({13, "a:1", "", "cannot connect"});
  EXPECT_TRUE(has(drawn(model), "FROZEN"));
  EXPECT_FALSE(has(drawn(model), "cannot connect"));
  model.press("f");
  EXPECT_TRUE(has(drawn(model), "away: cannot connect"));
}

TEST(TopModel, a_server_that_is_away_keeps_its_last_figures_and_comes_back) {
  TopModel model = watched();
  model.take({13, "a:1", "", "cannot connect to a:1: Connection refused"});
  EXPECT_TRUE(has(drawn(model), "AWAY\naway: cannot connect to a:1: Connection refused\n1010/s"))
      << drawn(model);
  model.take(seen(14));
  EXPECT_FALSE(has(drawn(model), "away")) << drawn(model);
}

TEST(TopModel, of_several_servers_shows_each_in_a_line_and_one_whole) {
  TopModel model({"a:1", "b:2"});
  model.take(seen(1, "a:1"));
  model.take({1, "b:2", "", "cannot connect to b:2: Connection refused"});
  EXPECT_TRUE(has(drawn(model), ">a:1")) << drawn(model);
  EXPECT_TRUE(has(drawn(model), " b:2                   away: cannot connect")) << drawn(model);
  model.press("\t");
  EXPECT_TRUE(has(drawn(model), ">b:2")) << drawn(model);
  model.press("\t");
  EXPECT_EQ(model.settings().selected, 0u);
}

TEST(TopModel, names_from_a_server_are_no_commands_to_the_terminal) {
  TopModel model({"a:1"});
  model.take({1, "a:1", state_text({.time_s = 1, .types = {{"\033[2Jx\u00e9", {}}}}), ""});
  EXPECT_TRUE(has(drawn(model), "?[2Jx?")) << drawn(model);
  Screen screen(80, 24);
  model.draw(screen);
  EXPECT_FALSE(has(screen.ansi(true), "\033[2J"));
}

TEST(TopModel, without_colours_only_bold_and_reverse_are_left) {
  Screen screen(80, 24);
  watched().draw(screen);
  EXPECT_TRUE(has(screen.ansi(true), "\033[0;3"));
  EXPECT_FALSE(has(screen.ansi(false), "\033[0;3"));
  EXPECT_TRUE(has(screen.ansi(false), "\033[0;7m"));
}

TEST(TopModel, is_told_as_json_too) {
  const auto json = nlohmann::ordered_json::parse(top_json(watched().servers()));
  EXPECT_EQ(json["schema"], "rubato.top/1");
  const auto& server = json["servers"][0];
  EXPECT_EQ(server["server"], "a:1");
  EXPECT_EQ(server["types"][0]["second"]["count"], 2'000);
  EXPECT_EQ(server["blocked"][0]["blocker"], "scan");
  EXPECT_EQ(server["credits"]["issued"], 10);
}

TEST(Figures, have_three_digits_and_fit) {
  EXPECT_EQ(short_time(0), "0");
  EXPECT_EQ(short_time(0.85), "850ns");
  EXPECT_EQ(short_time(12.34), "12.3us");
  EXPECT_EQ(short_time(999.6), "1.00ms");
  EXPECT_EQ(short_time(99'960), "100ms");
  EXPECT_EQ(short_time(4'500'000), "4.50s");
  EXPECT_EQ(short_number(0.25), "0.2");
  EXPECT_EQ(short_number(1'234), "1234");
  EXPECT_EQ(short_number(12'345), "12.3k");
  EXPECT_EQ(short_number(1'999'999), "2.00M");
  EXPECT_EQ(short_bytes(1'536), "1.50K");
}

TEST(Recording, plays_back_what_was_recorded) {
  const Observation away{3, "b:2", "", "cannot \"connect\""};
  const std::string text = recorded(seen(1)) + recorded(seen(2)) + recorded(away);
  const auto all = parse_recording(text);
  ASSERT_TRUE(all.ok()) << all.error();
  ASSERT_EQ(all.value().size(), 3u);
  EXPECT_EQ(all.value()[2].trouble, away.trouble);
  TopModel live({"a:1"}), played({"a:1"});
  live.take(seen(1));
  live.take(seen(2));
  for (const Observation& one : all.value()) played.take(one);
  EXPECT_EQ(drawn(live), drawn(played));
  EXPECT_EQ(parse_recording(text + "{\"at_s\": 3, \"ser").value().size(), 3u);  // it was killed
}

TEST(Recording, that_is_none_is_refused_with_its_line) {
  EXPECT_EQ(parse_recording("").error(), "holds nothing");
  EXPECT_EQ(parse_recording("[]\n").error(), "line 1 takes at_s, server, and state or trouble");
  const auto broken =
      parse_recording(recorded(seen(1)) + R"({"at_s":1,"server":"a","state":{}})" + "\n");
  EXPECT_TRUE(broken.error().starts_with("line 2 no state of a server: ")) << broken.error();
}

}  // namespace
}  // namespace rubato::cli
