// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/kmod.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "mechanism/preempt/entry.h"
#include "mechanism/preempt/kmod_abi.h"

namespace rubato {
namespace {

// An open file of the module; its registrations end with it.
class Device {
 public:
  explicit Device(int descriptor) : descriptor_(descriptor) {}
  Device(Device&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~Device() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string because(const char* what) {
  return std::string(RUBATO_IPI_DEVICE) + ": " + what + ": " + std::strerror(errno);
}

Result<Device> open_device() {
  Device device(::open(RUBATO_IPI_DEVICE, O_RDWR | O_CLOEXEC));
  if (device.descriptor() < 0 && errno == ENOENT) {
    return Error{std::string("its kernel module is not loaded: no ") + RUBATO_IPI_DEVICE};
  }
  if (device.descriptor() < 0) return Error{because("cannot be opened")};
  const int version = ::ioctl(device.descriptor(), RUBATO_IPI_VERSION);
  if (version != RUBATO_IPI_ABI_VERSION) {
    return Error{std::string(RUBATO_IPI_DEVICE) + ": its module is of another version, not " +
                 std::to_string(RUBATO_IPI_ABI_VERSION)};
  }
  return device;
}

class KmodLine final : public InterruptLine {
 public:
  KmodLine(Device device, int handle) : device_(std::move(device)), handle_(handle) {}

  // Runs on the target's own thread: no interrupt arrives after it.
  ~KmodLine() override { ::ioctl(device_.descriptor(), RUBATO_IPI_UNREGISTER, handle_); }

  void send() override {
    static_cast<void>(::ioctl(device_.descriptor(), RUBATO_IPI_SEND, handle_));
  }

 private:
  Device device_;
  const int handle_;
};

}  // namespace

Status kmod_available() {
  auto device = open_device();
  if (!device.ok()) return Error{device.error()};
  return prepare_interrupt_entry();
}

Result<std::unique_ptr<InterruptLine>> open_kmod_line(InterruptTarget& target) {
  auto device = open_device();
  if (!device.ok()) return Error{device.error()};
  if (Status entry = prepare_interrupt_entry(); !entry.ok()) return Error{entry.error()};
  rubato_ipi_target asked{};
  asked.handler = interrupt_entry();
  asked.cookie = interrupt_cookie(target);
  const int handle = ::ioctl(device->descriptor(), RUBATO_IPI_REGISTER, &asked);
  if (handle < 0) return Error{because("takes no target")};
  return std::unique_ptr<InterruptLine>(
      std::make_unique<KmodLine>(std::move(*device), handle));
}

}  // namespace rubato
