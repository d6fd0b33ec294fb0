// SPDX-License-Identifier: Apache-2.0
#include "dpdk/load.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "datapath/time_source.h"
#include "dpdk/fingerprint.h"

namespace rubato {
namespace {

bool is_trusted(const struct stat& file, uid_t program_owner) {
  const bool owner = file.st_uid == 0 || file.st_uid == ::geteuid() || file.st_uid == program_owner;
  // In a folder with the sticky bit nobody can replace what others own.
  const bool sticky = S_ISDIR(file.st_mode) && (file.st_mode & S_ISVTX) != 0;
  return owner && ((file.st_mode & S_IWOTH) == 0 || sticky);
}

Result<const DpdkPlugin*> load() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return Error{"dpdk: no plugin, as /proc/self/exe says not where the program is"};
  const auto found = find_dpdk_plugin(program.string(), RUBATO_PLUGIN_FOLDER);
  if (!found.ok()) return Error{found.error()};
  const std::string& path = found.value();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("dpdk: no plugin (package rubato-dpdk): ") + ::dlerror()};
  }
  const auto* plugin = static_cast<const DpdkPlugin*>(::dlsym(library, kDpdkPluginSymbol));
  const std::string mine = dpdk_fingerprint(RUBATO_VERSION, dpdk_commit());
  if (plugin == nullptr || plugin->fingerprint != mine) {
    return Error{"dpdk: " + path + " is of another build of rubato, not " + mine};
  }
  return plugin;
}

}  // namespace

Result<std::string> find_dpdk_plugin(const std::string& program, const std::string& folder) {
  struct stat file {};
  if (::stat(program.c_str(), &file) != 0) file.st_uid = 0;  // removed since it was started
  const uid_t owner = file.st_uid;
  auto path = std::filesystem::path(program).parent_path().parent_path();
  const auto parts = std::filesystem::path(folder) / "librubato-dpdk.so";
  for (auto part = parts.begin();; path /= *part++) {
    if (::stat(path.c_str(), &file) != 0) {
      return Error{"dpdk: no plugin (package rubato-dpdk): " + path.string() + ": " +
                   std::strerror(errno)};
    }
    if (!is_trusted(file, owner)) {
      return Error{"dpdk: no plugin: others may write to " + path.string() +
                   ", or it is theirs (user " + std::to_string(file.st_uid) + ")"};
    }
    if (part == parts.end()) return path.string();
  }
}

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
