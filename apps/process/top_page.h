// SPDX-License-Identifier: Apache-2.0
//
// top_page: the page at /top of the metrics port (top_page.html), which shows what `rubato top`
// does. Any thread.
#pragma once

#include <string>

namespace rubato {

std::string top_page();

}  // namespace rubato
