// SPDX-License-Identifier: Apache-2.0
#include "dpdk/load.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "datapath/time_source.h"
#include "dpdk/fingerprint.h"

namespace rubato {
namespace {

// Beside the program, as the build and the installation put it.
std::string plugin_path() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto root = failed ? std::filesystem::path() : program.parent_path().parent_path();
  return (root / RUBATO_PLUGIN_FOLDER / "librubato-dpdk.so").string();
}

Result<const DpdkPlugin*> load() {
  const std::string path = plugin_path();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("dpdk: no plugin (package rubato-dpdk): ") + ::dlerror()};
  }
  const auto* plugin = static_cast<const DpdkPlugin*>(::dlsym(library, kDpdkPluginSymbol));
  const std::string mine = dpdk_fingerprint(RUBATO_VERSION);
  if (plugin == nullptr || plugin->fingerprint != mine) {
    return Error{"dpdk: " + path + " is of another version of rubato, not " + mine};
  }
  return plugin;
}

}  // namespace

Result<std::unique_ptr<DatagramWire>> open_dpdk_wire(DpdkWireOptions options) {
  const auto plugin = load();
  if (!plugin.ok()) return Error{plugin.error()};
  options.clock = &datapath_now;
  return plugin.value()->open(options);
}

Result<std::string> dpdk_version() {
  const auto plugin = load();
  if (!plugin.ok()) return Error{plugin.error()};
  return std::string(plugin.value()->version());
}

}  // namespace rubato
