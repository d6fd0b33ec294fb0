// SPDX-License-Identifier: Apache-2.0
//
// The plugin's one symbol.
#include <rte_version.h>

#include "dpdk/fingerprint.h"
#include "dpdk/wire.h"

namespace {

const std::string kFingerprint = rubato::dpdk_fingerprint(RUBATO_VERSION, rubato::dpdk_commit());

}  // namespace

extern "C" {
extern const rubato::DpdkPlugin rubato_dpdk_plugin;
const rubato::DpdkPlugin rubato_dpdk_plugin = {kFingerprint.c_str(), &rte_version,
                                               &rubato::dpdk::open_wire};
}
