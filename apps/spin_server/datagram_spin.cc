// SPDX-License-Identifier: Apache-2.0
#include "spin_server/datagram_spin.h"

#include <optional>

#include "runtime/slow_requests.h"

namespace rubato::spin {
namespace {

struct DatagramSpinRequest final : RequestData {
  std::optional<Work> work;
};

DatagramSpinRequest& of(const Request& request) {
  return static_cast<DatagramSpinRequest&>(*request.data);
}

void answer_with(Request& request, std::string_view text) {
  request.reply->append(request.payload.substr(0, kDatagramIdBytes));
  request.reply->append(text);
}

// Two servers, or one and itself, would answer each other for ever.
bool is_reply(std::string_view text) { return text == "OK" || text == "ERR" || text == "BUSY"; }

// Of all requests of a queue; it has no state.
class DatagramSpinSession final : public Session {
 public:
  explicit DatagramSpinSession(const SpinOptions& options) : options_(options) {}

  std::unique_ptr<RequestData> make_request_data() override {
    return std::make_unique<DatagramSpinRequest>();
  }

  Frame frame(std::string_view datagram, Request& request) override {
    if (datagram.size() < kDatagramIdBytes) return {};
    const std::string_view text = datagram.substr(kDatagramIdBytes);
    if (is_reply(text)) return {};
    const size_t space = text.find(' ');
    const bool has_class = space != std::string_view::npos;
    std::optional<Work>& work = of(request).work;
    work = parse_work(text.substr(0, space), has_class ? text.substr(space + 1) : "", options_);
    request.type = !work ? kControl : work->is_long ? kLong : kShort;
    if (work) request.size_hint = work->service;
    request.at_once = !work;
    return {FrameState::kComplete, datagram.size()};
  }

  void refuse(Request& request) override { answer_with(request, "BUSY"); }
  void answer(Request& request) override { answer_with(request, "ERR"); }

 private:
  const SpinOptions& options_;
};

}  // namespace

std::unique_ptr<Session> DatagramSpin::open(const Peer&) {
  return std::make_unique<DatagramSpinSession>(options_);
}

void DatagramSpin::handle(Request& request) {
  const Work& work = *of(request).work;
  if (work.is_long) long_begin();
  options_.work(work.service);
  if (work.is_long) long_end();
  answer_with(request, request.cancelled ? "BUSY" : "OK");
}

void DatagramSpin::slow(const Request& request, const Completion& times) {
  log_slow_request(type_name(request.type), times, type_name(times.blocker_type));
}

}  // namespace rubato::spin
