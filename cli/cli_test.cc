// SPDX-License-Identifier: Apache-2.0
//
// The binary as a user meets it: exit statuses, one-line errors, output that parses.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace {

struct Output {
  int status = -1;
  std::string text;
};

// Runs `rubato ARGUMENTS` in a shell; `stream` tells what to keep ("2>&1", "2>/dev/null", ...).
Output rubato(const std::string& arguments, const std::string& stream = "2>&1") {
  Output output;
  std::FILE* pipe =
      ::popen((std::string(RUBATO_BINARY) + " " + arguments + " " + stream).c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> piece;
  while (const size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) {
    output.text.append(piece.data(), got);
  }
  const int code = ::pclose(pipe);
  output.status = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
  return output;
}

bool is_one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.ends_with('\n');
}

// Slowdowns of ten million, each with its interval, between two of which there must be a space.
TEST(Cli, columns_of_a_simulation_do_not_touch) {
  const std::string sim = "sim --workload short:1ns:99,long:10ms:1 --workers 1 --requests 5000 "
                          "--seeds 3 ";
  for (const char* table : {"--policy fcfs --load 0.9", "--policy fcfs --loads 0.8:0.9:0.1",
                            "--compare fcfs,cfcfs --load 0.9"}) {
    const Output output = rubato(sim + table);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(std::regex_search(output.text, std::regex(R"(e\+07\+-)"))) << output.text;
    EXPECT_FALSE(std::regex_search(output.text, std::regex(R"(\+-[^ ]*\+-)"))) << output.text;
  }
}

TEST(Cli, options_of_the_servers_are_named_with_what_they_take) {
  const std::string kv = "serve kv --engine memory --port 0 ";
  const std::pair<std::string, std::string> cases[] = {
      {"serve kv --port 99999", "--port: takes a whole number from 0 to 65535, not '99999'"},
      {"serve spin --port http", "--port: takes a whole number from 0 to 65535, not 'http'"},
      {"serve kv --port 64x", "--port: takes a whole number from 0 to 65535, not '64x'"},
      {kv + "--workers two", "--workers: takes a whole number from 0 to 256, not 'two'"},
      {kv + "--idle-timeout -5", "--idle-timeout: takes a time from 0ns to 2147483648s"},
      {kv + "--metrics-port -1", "--metrics-port: takes none, or a whole number from 0 to 65535"},
      {kv + "--classify size", "--classify: takes feedback, age, learned or declared, not 'size'"},
      {"serve kv --engine disk", "--engine: takes rocksdb or memory, not 'disk'"},
      {kv + "--config none.toml", "--config: takes a file; there is none at 'none.toml'"},
      {kv + "--stack 1KiB", "--stack: takes a size from 16KiB to 64MiB, not '1KiB'"},
      {kv + "--overload credits", "--overload: credits needs --rpc-port"},
      {kv + "--credits-set beta=1", "--credits-set: needs --rpc-port"},
      {kv + "--slowlog-max-len -1", "--slowlog-max-len: takes a whole number of 0 to 1000000"},
      {kv + "--slowlog-log-slower-than soon", "--slowlog-log-slower-than: takes a whole number of"},
      {kv + "--drain-limit nan", "--drain-limit: takes a time from 0ns to 3600s"},
      {kv + "--drain-limit-s 3", "'--drain-limit-s' is not an option of rubato serve kv"},
      {kv + "--maxmemory -1", "--maxmemory: takes bytes, as 512mb or 1gb"},
      {kv + "--maxmemory much", "--maxmemory: takes bytes, as 512mb or 1gb"},
      {kv + "--max-fibers 2 --workers 4", "--max-fibers: must be greater"},
      {kv + "--policy nosuch", "--policy: 'nosuch' is not one of"},
      {kv + "--policy nebula", "--policy: 'nebula' is simulated only"},
      {kv + "--set colour=red", "--set: synergy has no option 'colour'"},
      {kv + "--set reserve=on --set wait_queue=off",
       "--set: reserve has no effect with wait_queue=off"},
  };
  for (const auto& [arguments, message] : cases) {
    const Output output = rubato(arguments);
    EXPECT_EQ(output.status, 2) << arguments;
    EXPECT_TRUE(is_one_line(output.text)) << output.text;
    EXPECT_NE(output.text.find(message), std::string::npos) << output.text;
  }
}

TEST(Cli, output_that_cannot_be_written_is_a_failure) {
  for (const char* command : {"policies", "doctor --json"}) {
    const Output output = rubato(command, "2>&1 >/dev/full");
    EXPECT_EQ(output.status, 1) << command;
    EXPECT_EQ(output.text, "rubato: cannot write to the standard output\n");
  }
}

TEST(Cli, says_its_version_and_its_help) {
  const Output version = rubato("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.text.starts_with("rubato ")) << version.text;
  for (const char* command : {"", "load", "policies", "options", "doctor"}) {
    const Output help = rubato(std::string(command) + " --help");
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_NE(help.text.find("Usage: rubato"), std::string::npos) << command;
  }
}

TEST(Cli, shows_no_option_that_only_its_own_processes_take) {
  for (const char* text : {"load --help", "completion bash", "completion zsh", "completion fish"}) {
    const Output shown = rubato(text);
    EXPECT_EQ(shown.status, 0) << text;
    EXPECT_FALSE(std::regex_search(shown.text, std::regex("-l part\\b|--part\\b"))) << text;
  }
}

TEST(Cli, bad_arguments_name_the_command_whose_help_tells_more) {
  const std::pair<std::string, std::string> cases[] = {
      {"--nonsense", "(rubato --help tells more)\n"},
      {"policies --nonsense", "(rubato policies --help tells more)\n"},
      {"serve kv --port", "(rubato serve kv --help tells more)\n"},
      {"bench preempt --json", "(rubato bench preempt --help tells more)\n"},
  };
  for (const auto& [arguments, hint] : cases) {
    const Output output = rubato(arguments);
    EXPECT_EQ(output.status, 2) << arguments;
    EXPECT_TRUE(is_one_line(output.text)) << output.text;
    EXPECT_TRUE(output.text.ends_with(hint)) << output.text;
  }
}

TEST(Cli, a_word_that_it_does_not_know_is_named_with_what_was_expected) {
  const std::pair<std::string, std::string> cases[] = {
      {"serve kvv", "'kvv' is not a command of rubato serve, which takes kv or spin; did you mean "
                    "kv? (rubato serve --help"},
      {"serve", "rubato serve takes kv or spin (rubato serve --help"},
      {"serve foo --port 3", "'foo' is not a command of rubato serve, which takes kv or spin ("},
      {"serve --port 3 kv", "'--port' is not an option of rubato serve, which takes kv or spin ("},
      {"sevre kv", "'sevre' is not a command of rubato, which takes bench, calibrate, commands,"},
      {"sevre kv", "; did you mean serve? (rubato --help"},
      {"cal", "; did you mean calibrate?"},
      {"bench foo", "'foo' is not a command of rubato bench, which takes"},
      {"bench premept", "; did you mean preempt?"},
      {"serve kv spin", "'spin' is not an argument of rubato serve kv ("},
      {"serve kv --prot 6400", "'--prot' is not an option of rubato serve kv; did you mean --port"},
      {"serve kv --prot=6400", "'--prot' is not an option of rubato serve kv; did you mean --port"},
      {"load --targt resp://127.0.0.1:1", "; did you mean --target? (rubato load --help"},
      {"--verzion", "'--verzion' is not an option of rubato, which takes"},
      {"sim 0.5", "'0.5' is not an argument of rubato sim ("},
  };
  for (const auto& [arguments, message] : cases) {
    const Output output = rubato(arguments);
    EXPECT_EQ(output.status, 2) << arguments;
    EXPECT_TRUE(is_one_line(output.text)) << output.text;
    EXPECT_NE(output.text.find(message), std::string::npos) << output.text;
  }
}

TEST(Cli, without_a_command_it_shows_what_there_is) {
  const Output output = rubato("");
  EXPECT_EQ(output.status, 2);
  EXPECT_NE(output.text.find("load"), std::string::npos);
}

TEST(Cli, bad_arguments_are_status_2_and_one_line_that_names_the_option) {
  const std::string load = "load --target resp://127.0.0.1:1 ";
  const std::pair<std::string, std::string> cases[] = {
      {"load", "--target"},
      {"load --target nonsense", "--target"},
      {load + "--rate abc", "--rate"},
      {load + "--rate 0", "--rate"},
      {load + "--duration -1", "--duration"},
      {load + "--flows 0", "--flows"},
      {load + "--mix frob/:1", "--mix"},
      {"load --target memcached://127.0.0.1:1 --mix frob:1", "--mix"},
      {"load --target http://127.0.0.1:1 --mix head/:1", "--mix"},
      {"load --target spin://127.0.0.1:1 --processes 0", "--processes"},
      {load + "--service-us set=3", "--service-us"},
      {load + "--arrivals often", "--arrivals"},
      {load + "--arrivals trace:/nowhere", "--arrivals"},
      {load + "--pick first", "--pick"},
      {load + "--warmup 10", "--warmup"},
      {load + "--workload fixed-1", "--workload"},
      {load + "--frob", "--frob"},
      {"load --target spin://127.0.0.1:1 --workload nonsense", "--workload"},
      {"frob", "frob"},
  };
  for (const auto& [arguments, named] : cases) {
    const Output output = rubato(arguments);
    EXPECT_EQ(output.status, 2) << arguments;
    EXPECT_TRUE(is_one_line(output.text)) << arguments << "\n" << output.text;
    EXPECT_NE(output.text.find(named), std::string::npos) << output.text;
  }
}

TEST(Cli, a_server_that_is_not_there_is_status_1_and_one_line) {
  const Output output = rubato("load --target resp://127.0.0.1:1 --duration 1");
  EXPECT_EQ(output.status, 1);
  EXPECT_TRUE(is_one_line(output.text)) << output.text;
  EXPECT_NE(output.text.find("cannot connect"), std::string::npos);
}

TEST(Cli, policies_are_listed_in_every_form) {
  const Output text = rubato("policies");
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.text.find("synergy"), std::string::npos);
  EXPECT_NE(text.text.find("\nrss\n    alias of fcfs\n"), std::string::npos);
  const Output table = rubato("policies --markdown");
  EXPECT_TRUE(table.text.starts_with("| policy |")) << table.text;
  const auto json = nlohmann::json::parse(rubato("policies --json").text);
  ASSERT_GE(json.size(), 5u);
  for (const auto& policy : json) {
    EXPECT_FALSE(policy["summary"].get<std::string>().empty());
    EXPECT_FALSE(policy["source"].get<std::string>().empty());
    if (policy["name"] == "darc") {
      EXPECT_EQ(policy["may_starve"], "all but the shortest type");
    } else if (policy["name"] == "cfcfs") {
      EXPECT_EQ(policy["may_starve"], "nobody");
    }
  }
}

TEST(Cli, policies_that_stand_for_hardware_are_marked_and_only_simulated) {
  EXPECT_NE(rubato("policies").text.find("each core (simulated only)"), std::string::npos);
  EXPECT_NE(rubato("policies --markdown").text.find("each core (simulated only) |"),
            std::string::npos);
  for (const auto& policy : nlohmann::json::parse(rubato("policies --json").text)) {
    const std::string name = policy["name"];
    EXPECT_EQ(policy["simulated_only"],
              name == "concord" || name == "rpcvalet" || name == "nebula" || name == "nanopu")
        << name;
  }
  const Output simulated =
      rubato("sim --policy nebula --workload fixed-1 --workers 2 --requests 1000");
  EXPECT_EQ(simulated.status, 0) << simulated.text;
  const Output fidelity = rubato("fidelity --policies nebula,rpcvalet");
  EXPECT_EQ(fidelity.status, 2);
  EXPECT_NE(fidelity.text.find("left out nebula, which is simulated only"), std::string::npos);
  EXPECT_NE(fidelity.text.find("--policies: takes policies that serve live"), std::string::npos);
}

TEST(Cli, a_simulated_reservation_is_told_to_people_and_in_json) {
  const std::string command =
      "sim --policy darc --set window=1000 --workload tpcc --workers 14 --requests 20000 ";
  const Output description = rubato(command + "--explain");
  EXPECT_EQ(description.status, 0);
  EXPECT_NE(description.text.find("plan of darc at the end of the run"), std::string::npos)
      << description.text;
  EXPECT_NE(description.text.find("(group 1) owns workers 0 to 1, may steal workers 2 to 13"),
            std::string::npos) << description.text;
  const auto json = nlohmann::json::parse(rubato(command + "--json -", "2>/dev/null").text);
  ASSERT_EQ(json["plan"].size(), 6u);
  EXPECT_FALSE(nlohmann::json::parse(
      rubato("sim --policy fcfs --requests 1000 --json -", "2>/dev/null").text).contains("plan"));
}

TEST(Cli, doctor_never_fails_and_advises_on_everything) {
  const Output output = rubato("doctor --json", "2>/dev/null");
  EXPECT_EQ(output.status, 0);
  const auto json = nlohmann::json::parse(output.text);
  EXPECT_GE(json.size(), 12u);
  for (const auto& finding : json) {
    EXPECT_FALSE(finding["name"].get<std::string>().empty());
    EXPECT_FALSE(finding["advice"].get<std::string>().empty()) << finding["name"];
    const std::string status = finding["status"];
    EXPECT_TRUE(status == "ok" || status == "info" || status == "warn") << status;
  }
}

}  // namespace
