// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <any>
#include <exception>
#include <functional>
#include <iomanip>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tests/torture/workload.h"

namespace torture {
namespace {

struct Trace {
  Trace(Sum& to, uint64_t mark) : sum(to), number(mark) {}
  ~Trace() { sum.add(number * 7 + static_cast<uint64_t>(std::uncaught_exceptions())); }
  Sum& sum;
  uint64_t number;
};

void descend(Sum& sum, Random& random, int depth) {
  const Trace trace(sum, static_cast<uint64_t>(depth));
  if (depth == 0) {
    const uint64_t which = random.below(3);
    if (which == 0) throw std::out_of_range("range " + std::to_string(random.below(1000)));
    if (which == 1) throw std::runtime_error("error " + std::to_string(random.below(1000)));
    throw static_cast<int>(random.below(1000));
  }
  try {
    descend(sum, random, depth - 1);
  } catch (const std::out_of_range& e) {
    sum.add(e.what());
    // Another one, thrown and caught while this one is being handled.
    try {
      std::stoi("no number");
    } catch (const std::invalid_argument&) {
      sum.add(1);
    }
    throw;
  }
}

std::string word(Random& random) {
  std::string text;
  for (uint64_t i = 3 + random.below(9); i > 0; --i) {
    text += static_cast<char>('a' + random.below(26));
  }
  return text;
}

}  // namespace

uint64_t exceptions(uint64_t seed) {
  Random random(seed);
  Sum sum;
  for (int i = 0; i < 12; ++i) {
    try {
      descend(sum, random, static_cast<int>(random.below(6)));
    } catch (const std::exception& e) {
      sum.add(e.what());
      const std::exception_ptr kept = std::current_exception();
      try {
        std::rethrow_exception(kept);
      } catch (const std::exception& again) {
        sum.add(again.what());
      }
    } catch (int number) {
      sum.add(static_cast<uint64_t>(number));
    }
    sum.add(static_cast<uint64_t>(std::uncaught_exceptions()));
  }
  return sum.value();
}

uint64_t functions(uint64_t seed) {
  Random random(seed);
  std::vector<std::function<uint64_t(uint64_t)>> chain;
  for (int i = 0; i < 40; ++i) {
    const uint64_t a = random.next();
    const std::string text = word(random);
    chain.emplace_back([a, text](uint64_t x) { return (x ^ a) * 31 + text.size(); });
    if (random.below(3) == 0) {
      chain.emplace_back([inner = chain.back()](uint64_t x) { return inner(x) + inner(x + 1); });
    }
  }
  uint64_t x = seed;
  for (int round = 0; round < 20; ++round) {
    for (const auto& f : chain) x = f(x);
  }
  return x;
}

uint64_t regular_expressions(uint64_t seed) {
  Random random(seed);
  Sum sum;
  std::string text;
  for (int i = 0; i < 12; ++i) {
    text += word(random) + "=" + std::to_string(random.below(10000)) + "; ";
  }
  const std::regex pair(R"((\w+)=(\d+);)");
  for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it) {
    sum.add((*it)[1].str());
    sum.add((*it)[2].str());
  }
  sum.add(std::regex_replace(text, std::regex("[aeiou]+"), "<$&>"));
  return sum.value();
}

uint64_t streams(uint64_t seed) {
  Random random(seed);
  Sum sum;
  std::ostringstream out;
  for (int i = 0; i < 40; ++i) {
    out << std::setw(12) << std::setfill('.') << random.below(1'000'000) << ' ' << std::hex
        << random.below(1'000'000) << std::dec << ' ' << std::setprecision(7)
        << static_cast<double>(random.below(1'000'000)) / 977.0 << '\n';
  }
  sum.add(out.str());
  std::istringstream in(out.str());
  std::string a;
  std::string b;
  double c = 0;
  while (in >> a >> b >> c) {
    sum.add(a + b);
    sum.add(static_cast<uint64_t>(c * 1000));
  }
  return sum.value();
}

uint64_t formatting(uint64_t seed) {
  Random random(seed);
  Sum sum;
  char buffer[256];
  for (int i = 0; i < 60; ++i) {
    const double number = static_cast<double>(random.next() >> 11) / 12345.678;
    const auto length = snprintf(buffer, sizeof(buffer), "%20.6f|%-12lu|%a|%s", number,
                                 static_cast<unsigned long>(random.below(1 << 30)), number,
                                 word(random).c_str());
    sum.add(std::string_view(buffer, static_cast<size_t>(length)));
    sum.add(fmt::format("{:>12.3e} {:#x} {:^14}", number, random.below(1 << 20), word(random)));
  }
  return sum.value();
}

uint64_t containers(uint64_t seed) {
  Random random(seed);
  Sum sum;
  std::map<std::string, std::vector<uint64_t>> ordered;
  std::unordered_map<uint64_t, std::shared_ptr<std::string>> hashed;
  std::vector<std::any> mixed;
  for (int i = 0; i < 150; ++i) {
    ordered[word(random).substr(0, 2)].push_back(random.next());
    hashed[random.below(64)] = std::make_shared<std::string>(word(random));
    if (random.below(2) == 0) mixed.emplace_back(word(random));
    if (random.below(4) == 0 && !ordered.empty()) ordered.erase(ordered.begin());
  }
  for (const auto& [key, values] : ordered) {
    sum.add(key);
    for (const uint64_t value : values) sum.add(value);
  }
  for (uint64_t key = 0; key < 64; ++key) {
    if (const auto found = hashed.find(key); found != hashed.end()) sum.add(*found->second);
  }
  for (const std::any& item : mixed) sum.add(std::any_cast<const std::string&>(item));
  return sum.value();
}

}  // namespace torture
