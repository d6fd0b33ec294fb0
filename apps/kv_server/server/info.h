// SPDX-License-Identifier: Apache-2.0
//
// The text of INFO: sections of `name:value` lines, as Redis writes them, and a section
// `scheduler` that is the host's. Any thread; reads snapshots only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kv_server/server/server.h"

namespace rubato::kv {

// What the process has in memory.
uint64_t resident_bytes();

// The sections named ("server", "memory", ..., "default", "all", "everything"), case-insensitive;
// none named means the default ones. Unknown names give nothing.
std::string info_text(Server& server, std::span<const std::string_view> sections);

}  // namespace rubato::kv
