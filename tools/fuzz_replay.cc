// SPDX-License-Identifier: Apache-2.0
//
// Stands in for libFuzzer where the compiler has none: feeds the fuzz target every file of the
// corpus folders named as arguments, then seeded mutations of them. The seed is printed and comes
// from RUBATO_SEED.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr uint64_t kDefaultSeed = 1;
constexpr int kMutations = 20'000;
constexpr std::string_view kRuns = "-runs=";  // another number, as libFuzzer has it
constexpr uint32_t kMaxEdits = 8;
constexpr uint32_t kMaxGrowthBytes = 16;

std::vector<std::string> read_corpus(int argc, char** argv) {
  std::vector<std::string> inputs{""};
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return inputs;
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Flips, drops or repeats a few bytes.
std::string mutate(std::string input, rubato::Prng& random) {
  for (uint32_t edits = 1 + random.below(kMaxEdits); edits > 0; --edits) {
    const size_t at = random.below(static_cast<uint32_t>(input.size()) + 1);
    switch (random.below(3)) {
      case 0: input.insert(at, 1 + random.below(kMaxGrowthBytes), static_cast<char>(random.next()));
        break;
      case 1: input.erase(at, 1 + random.below(kMaxGrowthBytes));
        break;
      default:
        if (at < input.size()) input[at] = static_cast<char>(random.next());
    }
  }
  return input;
}

int mutations(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with(kRuns)) return std::atoi(argv[i] + kRuns.size());
  }
  return kMutations;
}

}  // namespace

int main(int argc, char** argv) {
  const char* wanted = std::getenv("RUBATO_SEED");
  const uint64_t seed = wanted == nullptr ? kDefaultSeed : std::strtoull(wanted, nullptr, 10);
  std::printf("RUBATO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const std::vector<std::string> inputs = read_corpus(argc, argv);
  for (const std::string& input : inputs) run(input);
  rubato::Prng random(seed);
  const int wanted_mutations = mutations(argc, argv);
  for (int i = 0; i < wanted_mutations; ++i) {
    run(mutate(inputs[random.below(static_cast<uint32_t>(inputs.size()))], random));
  }
  std::printf("%zu inputs and %d mutations replayed\n", inputs.size(), wanted_mutations);
  return 0;
}
