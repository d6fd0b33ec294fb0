// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

const void* errno_of_this_thread();
const void* errno_of_this_thread() { return &errno; }
