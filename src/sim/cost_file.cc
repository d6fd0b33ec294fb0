// SPDX-License-Identifier: Apache-2.0
#include "sim/cost_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <vector>

#include "base/name_list.h"
#include "base/toml_guard.h"
#include "sim/cost_fields.h"
#include "sim/critical_sections.h"
#include "sim/hyperthreads.h"
#include "sim/stalls.h"
#include "workload/duration.h"

namespace rubato::sim {
namespace {

constexpr uintmax_t kMostBytes = 1u << 20;  // of a cost file

// No reader wants a line of any length.
std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c != 127 ? c : '?';
  return shown + (text.size() > kShown ? "...'" : "'");
}

template <class Words>
std::string joined(const Words& words) {
  std::string all;
  for (const auto& word : words) add_name(all, word.text);
  return all;
}

// With its unit.
template <class Length>
std::optional<Length> parse(std::string_view text) {
  if constexpr (std::is_same_v<Length, Picos>) return parse_picos(text);
  else return text.ends_with('s') ? parse_duration(text) : std::nullopt;
}

// Takes the fields from a table, and remembers the first thing that is wrong, by line.
class Reader {
 public:
  Reader(const toml::table& root, std::string_view file) : root_(root), file_(file) {}

  void section(std::string_view name) {
    section_ = name;
    known_.insert({std::string(name), {}});
    const toml::node* node = root_.get(name);
    table_ = node == nullptr ? nullptr : node->as_table();
    if (node != nullptr && table_ == nullptr)
      fail(*node, section_ + " is a section: write [" + section_ + "]");
  }

  template <class Part>
  Part* whole(std::string_view name, std::optional<Part>& value) {
    section(name);
    return table_ != nullptr ? &value.emplace() : nullptr;
  }

  void text(std::string_view key, std::string& value) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto* text = node->as_string();
    if (text == nullptr || text->get().find('\n') != std::string::npos) {
      return fail(*node, key, "takes a text of one line");
    }
    value = text->get();
  }

  template <class Enum, class Words>
  void word(std::string_view key, Enum& value, const Words& words) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto* text = node->as_string();
    for (const auto& word : words) {
      if (text != nullptr && text->get() == word.text) {
        value = word.value;
        return;
      }
    }
    fail(*node, key, "takes one of " + joined(words));
  }

  void count(std::string_view key, uint32_t& value, CountRange range) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto* number = node->as_integer();
    if (number == nullptr || number->get() < range.low || number->get() > range.high) {
      return fail(*node, key,
                  "takes a whole number from " + std::to_string(range.low) + " to " +
                      std::to_string(range.high));
    }
    value = static_cast<uint32_t>(number->get());
  }

  void cost(std::string_view key, Nanos& value, Nanos most) {
    const toml::node* node = find(key);
    if (node != nullptr) read(*node, key, value, most);
  }

  void price(std::string_view key, Price& value) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto* pair = node->as_array();
    if (pair == nullptr) return read(*node, key, value.typical, kMostCost);
    if (pair->size() != 2) return fail(*node, key, "takes one cost, or median and p99.9");
    read(*pair->get(0), key, value.typical, kMostCost);
    read(*pair->get(1), key, value.tail, kMostCost);
    if (value.tail < value.typical) fail(*node, key, "has a p99.9 below its median");
  }

  void step(std::string_view key, Picos& value, Nanos most) {
    const toml::node* node = find(key);
    if (node == nullptr) return miss(key);
    read(*node, key, value, most);
  }

  // To be called when every field has been read.
  std::optional<Error> first_error() {
    refuse_strangers();
    if (first_line_ == 0) return missing_;
    return Error{file_ + ":" + std::to_string(first_line_) + ": " + message_};
  }

 private:
  const toml::node* find(std::string_view key) {
    known_[section_].insert(std::string(key));
    return table_ == nullptr ? nullptr : table_->get(key);
  }

  template <class Length>
  void read(const toml::node& node, std::string_view key, Length& value, Nanos most) {
    const auto* text = node.as_string();
    const auto cost = parse<Length>(text == nullptr ? std::string_view() : text->get());
    if (!cost) {
      return fail(node, key, R"(takes a length of time with its unit, such as "850ns" or "1.2us")");
    }
    if (*cost > most) {
      return fail(node, key, "takes at most " + std::to_string(most.count() / 1'000'000) + " ms");
    }
    value = *cost;
  }

  void refuse_strangers() {
    for (const auto& [name, node] : root_) {
      const auto section = known_.find(std::string(name.str()));
      if (section == known_.end()) {
        fail(node, "there is no section " + in_quotes(name.str()));
        continue;
      }
      const toml::table* table = node.as_table();
      if (table == nullptr) continue;
      for (const auto& [key, value] : *table) {
        if (section->second.contains(std::string(key.str()))) continue;
        fail(value, "[" + section->first + "] has no key " + in_quotes(key.str()));
      }
    }
  }

  // Told where nothing else is wrong: a wrong key may be the one that is missing.
  void miss(std::string_view key) {
    if (missing_) return;
    missing_ = Error{file_ + ":" + std::to_string(table_->source().begin.line) + ": " + section_ +
                     "." + std::string(key) + " is missing: this section has all of its keys"};
  }
  void fail(const toml::node& node, std::string_view key, const std::string& what) {
    fail(node, section_ + "." + std::string(key) + " " + what);
  }
  void fail(const toml::node& node, const std::string& message) {
    const uint32_t line = node.source().begin.line;
    if (first_line_ != 0 && line >= first_line_) return;
    first_line_ = line;
    message_ = message;
  }

  const toml::table& root_;
  std::string file_;
  std::string section_;
  const toml::table* table_ = nullptr;
  std::map<std::string, std::set<std::string>> known_;
  uint32_t first_line_ = 0;  // 0 = nothing is wrong; TOML counts from 1
  std::string message_;
  std::optional<Error> missing_;
};

// Exact: parse_duration reads it back as the same number of nanoseconds.
std::string text_of(Nanos cost) { return '"' + std::to_string(cost.count()) + "ns\""; }

// The same of parse_picos.
std::string text_of(Picos cost) {
  std::string digits = std::to_string(cost.count() % 1000 + 1000).substr(1);
  digits.erase(digits.find_last_not_of('0') + 1);
  const std::string fraction = digits.empty() ? "" : "." + digits;
  return '"' + std::to_string(cost.count() / 1000) + fraction + "ns\"";
}

// A TOML basic string. What cannot stand in one line does not occur: Reader::text refuses it.
std::string text_of(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 127) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", unsigned{byte});
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

class Writer {
 public:
  explicit Writer(const CostNotes& notes) : notes_(notes) { note(""); }

  void section(std::string_view name) {
    section_ = name;
    out_ += (out_.empty() ? "[" : "\n[") + section_ + "]\n";
  }
  template <class Part>
  const Part* whole(std::string_view name, const std::optional<Part>& value) {
    if (!value) return nullptr;
    section(name);
    return &*value;
  }
  void text(std::string_view key, const std::string& value) { line(key, text_of(value)); }
  template <class Enum, class Words>
  void word(std::string_view key, Enum value, const Words& words) {
    for (const auto& word : words) {
      if (word.value == value) line(key, text_of(word.text));
    }
  }
  void count(std::string_view key, uint32_t value, CountRange) { line(key, std::to_string(value)); }
  void cost(std::string_view key, Nanos value, Nanos) { line(key, text_of(value)); }
  void step(std::string_view key, Picos value, Nanos) { line(key, text_of(value)); }
  void price(std::string_view key, const Price& value) {
    const bool pair = value.tail > value.typical;
    line(key, pair ? "[" + text_of(value.typical) + ", " + text_of(value.tail) + "]"
                   : text_of(value.typical));
  }
  std::string out() && { return std::move(out_); }

 private:
  void note(const std::string& about) {
    const auto found = notes_.find(about);
    if (found == notes_.end()) return;
    std::istringstream lines(found->second);
    for (std::string text; std::getline(lines, text);)
      out_ += text.empty() ? "#\n" : "# " + text + '\n';
  }
  void line(std::string_view key, const std::string& value) {
    note(section_ + "." + std::string(key));
    out_ += std::string(key) + " = " + value + '\n';
  }

  const CostNotes& notes_;
  std::string section_;
  std::string out_;
};

// A loop whose steps take nothing would never let another thread of the world go on.
class Steps {
 public:
  void step(std::string_view key, Picos value, Nanos) {
    (value > Picos() ? priced_ : free_) = key;
  }
  Status together() const {
    if (priced_.empty() || free_.empty()) return Done{};
    return Error{"world." + free_ + " takes more than 0ns, as world." + priced_ + " does"};
  }

 private:
  std::string priced_, free_;  // one of each, if there is any
};

Status check_world(const Costs& costs) {
  if (!costs.world) return Done{};
  Steps steps;
  visit_world_fields(*costs.world, steps);
  return steps.together();
}

std::string names_of_builtins() {
  std::string names;
  for (const BuiltinCosts& b : builtin_costs()) add_name(names, b.name);
  return names;
}

}  // namespace

Status check_poll(const Costs::Worker& worker) {
  if (worker.poll_look <= worker.poll.typical) return Done{};
  return Error{"worker.poll_look takes at most " + text_of(worker.poll.typical) +
               ", as worker.poll does"};
}

Result<Costs> parse_costs(std::string_view text, std::string_view file) {
  Costs costs;
  costs.name = file;
  costs.source = file;
  if (const size_t line = line_beyond_toml(text); line != 0) {
    return Error{std::string(file) + ":" + std::to_string(line) +
                 ": '[' needs a name or a value after it, and a letter beyond "
                 "ASCII stands in quotes, not right behind a backslash, or in a comment"};
  }
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    for (char& c : what) c = c == '\n' ? ' ' : c;
    return Error{std::string(file) + ":" + std::to_string(error.source().begin.line) + ": " + what};
  }
  Reader reader(root, file);
  visit_cost_fields(costs, reader);
  if (const auto error = reader.first_error()) return *error;
  for (const Status& fit : {check_stalls(costs.stalls), check_hyperthreads(costs),
                            check_critical_sections(costs), check_world(costs),
                            check_poll(costs.worker)}) {
    if (!fit) return Error{std::string(file) + ": " + fit.error()};
  }
  return costs;
}

Result<Costs> load_costs(const std::string& name_or_file) {
  for (const BuiltinCosts& builtin : builtin_costs()) {
    if (builtin.name == name_or_file) return parse_costs(builtin.text, builtin.name);
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name_or_file, ignored)) {
    return Error{"there is no cost file " + in_quotes(name_or_file) + "; built in are " +
                 names_of_builtins()};
  }
  std::ifstream file(name_or_file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) return Error{"cannot read " + in_quotes(name_or_file)};
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) {
    return Error{in_quotes(name_or_file) + " is over 1 MiB, which no cost file is"};
  }
  return parse_costs(text, name_or_file);
}

std::string to_toml(const Costs& costs, const CostNotes& notes) {
  Writer writer(notes);
  visit_cost_fields(costs, writer);
  return std::move(writer).out();
}

}  // namespace rubato::sim
