// SPDX-License-Identifier: Apache-2.0
#include "xdp/wire.h"

namespace rubato {

Result<std::unique_ptr<DatagramWire>> open_xdp_wire(const XdpWireOptions&) {
  return Error{"af_xdp: this build has none; it takes libxdp-dev, libbpf-dev and clang"};
}

bool has_xdp() { return false; }

}  // namespace rubato
