// SPDX-License-Identifier: Apache-2.0
//
// A key-value store in memory: a handler, and a classifier that names the kinds of requests. COUNT
// looks at every value, with a checkpoint at each, so that GETs need not wait for it.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include <rubato/rubato.hpp>

namespace {

enum Type : uint32_t { kPing, kGet, kSet, kCount, kFill };

// Cuts the first word off.
std::string_view next_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

class Store {
 public:
  static rubato::Class classify(std::string_view line) {
    const std::string_view verb = next_word(line);
    if (verb == "PING") return {.type = kPing, .is_control = true};
    if (verb == "COUNT") return {.type = kCount, .is_long = true};
    if (verb == "FILL") return {.type = kFill, .is_long = true};
    return {.type = verb == "SET" ? kSet : kGet};
  }

  void handle(rubato::Request& request) {
    std::string_view rest = request.payload();
    const std::string_view verb = next_word(rest);
    if (verb == "PING") {
      request.reply("PONG");
    } else if (verb == "SET") {
      const std::string_view key = next_word(rest);
      set(key, rest);
      request.reply("OK");
    } else if (verb == "GET") {
      request.reply(get(next_word(rest)));
    } else if (verb == "COUNT") {
      request.reply(std::to_string(count(rest)));
    } else if (verb == "FILL") {
      fill(rest);
      request.reply("OK");
    } else {
      request.reply("unknown; this server takes SET, GET, COUNT, FILL, PING");
    }
  }

 private:
  // No checkpoint under the lock: a request preempted there would keep it from those that overtake.
  void set(std::string_view key, std::string_view value) {
    const std::scoped_lock lock(mutex_);
    values_[std::string(key)] = value;
  }

  std::string get(std::string_view key) {
    const std::scoped_lock lock(mutex_);
    const auto at = values_.find(key);
    return at == values_.end() ? "(none)" : at->second;
  }

  // How many values contain the text. Takes the lock for one key at a time and goes on behind it,
  // as keys may come and go at a checkpoint.
  size_t count(std::string_view text) {
    size_t found = 0;
    std::string key;
    for (bool more = step(key, text, found, true); more; more = step(key, text, found, false)) {
      rubato::checkpoint();
    }
    return found;
  }

  bool step(std::string& key, std::string_view text, size_t& found, bool first) {
    const std::scoped_lock lock(mutex_);
    const auto at = first ? values_.begin() : values_.upper_bound(key);
    if (at == values_.end()) return false;
    key = at->first;
    if (at->second.find(text) != std::string::npos) ++found;
    return true;
  }

  void fill(std::string_view text) {
    int keys = 0;
    std::from_chars(text.data(), text.data() + text.size(), keys);
    for (int i = 0; i < keys; ++i) {
      set(std::to_string(i), "value of " + std::to_string(i));
      rubato::checkpoint();
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;  // guarded by mutex_
};

}  // namespace

int main(int argc, char** argv) {
  Store store;
  rubato::Application app;
  app.framing = rubato::Framing::kLines;
  app.classify = &Store::classify;
  app.handle = [&store](rubato::Request& request) { store.handle(request); };
  app.type_names = {"ping", "get", "set", "count", "fill"};

  rubato::Options options;
  options.port = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  options.metrics_port = argc > 2 ? std::atoi(argv[2]) : -1;
  options.handle_signals = true;
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) {
    std::fprintf(stderr, "kv_handler: %s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  const auto drained = server->run();
  if (!drained) std::fprintf(stderr, "kv_handler: %s\n", drained.error().c_str());
  const rubato::Times gets = server->times(kGet);
  std::printf("%llu GETs, 99%% within %.1f us\n",
              static_cast<unsigned long long>(gets.latency.count),
              static_cast<double>(gets.latency.p99_ns) / 1e3);
  return drained && *drained ? 0 : 1;
}
