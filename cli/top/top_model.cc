// SPDX-License-Identifier: Apache-2.0
#include "cli/top/top_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kEscape = '\033', kDelete = '\177', kBackspace = '\b';
constexpr size_t kLongestFilter = 64, kLongestOption = 256;

Json quantiles_json(const Quantiles& values) {
  return {{"count", values.count},
          {"p50_us", values.p50_us},
          {"p99_us", values.p99_us},
          {"p999_us", values.p999_us}};
}

Json type_json(const TypeRow& type) {
  return {{"name", type.name},
          {"rate_per_s", type.rate_per_s},
          {"wait_us", type.wait_us},
          {"service_us", type.service_us},
          {"second", quantiles_json(type.second)},
          {"minute", quantiles_json(type.minute)}};
}

Json worker_json(const WorkerRow& worker) {
  return {{"state", worker.state.state},
          {"type", worker.state.type},
          {"for_us", worker.state.for_us},
          {"busy", worker.busy}};
}

Json credits_json(const std::optional<CreditState>& credits) {
  if (!credits) return nullptr;
  return {{"sessions", credits->sessions},
          {"drained", credits->drained},
          {"total", credits->total},
          {"issued", credits->issued}};
}

template <class T>
Json all_json(const std::vector<T>& all, Json (*one)(const T&)) {
  Json list = Json::array();
  for (const T& entry : all) list.push_back(one(entry));
  return list;
}

Json view_json(const TopView& view) {
  const LiveState& now = *view.now;
  Json json = {{"policy", now.policy},
               {"version", now.version},
               {"pid", now.pid},
               {"serving", now.serving},
               {"second_s", view.second_s},
               {"minute_s", view.minute_s},
               {"busy_workers", view.busy},
               {"awake_workers", view.awake},
               {"rates_per_s", view.rates},
               {"figures", now.figures},
               {"queue_delays_us", now.queue_delays_us},
               {"all", type_json(view.all)},
               {"types", all_json(view.types, type_json)},
               {"workers", all_json(view.workers, worker_json)}};
  Json& queues = json["queues"] = Json::array();
  for (const QueueState& queue : now.queues) {
    queues.push_back({{"name", queue.name}, {"depth", queue.depth}, {"deepest", queue.deepest}});
  }
  Json& blocked = json["blocked"] = Json::array();
  for (const BlockedRow& pair : view.blocked) {
    blocked.push_back({{"victim", pair.victim},
                       {"blocker", pair.blocker},
                       {"rate_per_s", pair.rate_per_s},
                       {"held_us", pair.held_us}});
  }
  Json& refused = json["refused_per_s"] = Json::object();
  for (const auto& [why, per_s] : view.refused) refused[why] = per_s;
  json["credits"] = credits_json(now.credits);
  json["memory"] = now.memory;
  json["plan"] = now.plan;
  return json;
}

}  // namespace

TopModel::TopModel(const std::vector<std::string>& servers) : histories_(servers.size()) {
  for (const std::string& address : servers) servers_.push_back({address, "", {}});
  shown_ = servers_;
}

void TopModel::take(const Observation& observation) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    ServerLine& server = servers_[i];
    if (server.address != observation.server) continue;
    server.trouble = observation.trouble;
    if (observation.state.empty()) continue;
    const Status added = histories_[i].add(observation.state);
    server.trouble = added ? "" : added.error();
    if (added) server.view = histories_[i].view();
  }
  if (!settings_.frozen) shown_ = servers_;
}

bool TopModel::press(std::string_view keys) {
  // Arrow keys and their like come as a sequence that an escape begins.
  if (keys.size() > 2 && keys[0] == kEscape && keys[1] == '[') {
    const bool typing = settings_.typing || settings_.setting;
    if (!typing && (keys[2] == 'A' || keys[2] == 'B')) scroll(keys[2] == 'B');
    return true;
  }
  return std::all_of(keys.begin(), keys.end(), [this](char key) { return press_one(key); });
}

bool TopModel::press_one(char key) {
  if (settings_.typing) {
    type_filter(key);
    return true;
  }
  if (settings_.setting) {
    type_option(key);
    return true;
  }
  settings_.note.clear();
  switch (key) {
    case 'q': return false;
    case 's':
      settings_.sort = static_cast<SortBy>((static_cast<size_t>(settings_.sort) + 1) % kSorts);
      break;
    case 'r': settings_.reversed = !settings_.reversed; break;
    case '/':
      settings_.typing = true;
      settings_.skipped = 0;
      break;
    case kEscape: settings_.filter.clear(); break;
    case ':':
      settings_.setting = true;
      settings_.option.clear();
      break;
    case 'f':
    case ' ': freeze(); break;
    case '\t':
      settings_.selected = (settings_.selected + 1) % servers_.size();
      settings_.skipped = 0;
      break;
    case 'j':
    case 'k': scroll(key == 'j'); break;
    default: break;
  }
  return true;
}

void TopModel::type_filter(char key) {
  std::string& filter = settings_.filter;
  if (key == '\n' || key == '\r' || key == kEscape) settings_.typing = false;
  if (key == kEscape) filter.clear();
  if ((key == kDelete || key == kBackspace) && !filter.empty()) filter.pop_back();
  if (key >= ' ' && key <= '~' && filter.size() < kLongestFilter) filter += key;
}

void TopModel::type_option(char key) {
  std::string& option = settings_.option;
  const bool enter = key == '\n' || key == '\r';
  if (enter || key == kEscape) settings_.setting = false;
  if (enter && !option.empty()) wanted_ = option;
  if ((key == kDelete || key == kBackspace) && !option.empty()) option.pop_back();
  if (key >= ' ' && key <= '~' && option.size() < kLongestOption) option += key;
}

void TopModel::scroll(bool down) {
  const ServerLine& server = shown_[settings_.selected];
  const size_t types = server.view ? chosen_types(*server.view, settings_).size() : 0;
  size_t& skipped = settings_.skipped;
  if (down && skipped + 1 < types) ++skipped;
  if (!down && skipped > 0) --skipped;
}

void TopModel::freeze() {
  settings_.frozen = !settings_.frozen;
  if (!settings_.frozen) shown_ = servers_;
}

std::string top_json(const std::vector<ServerLine>& servers) {
  Json list = Json::array();
  for (const ServerLine& server : servers) {
    Json one = {{"server", server.address}, {"trouble", server.trouble}};
    if (server.view) one.update(view_json(*server.view));
    list.push_back(std::move(one));
  }
  const Json json = {{"schema", "rubato.top/1"}, {"servers", std::move(list)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato::cli
