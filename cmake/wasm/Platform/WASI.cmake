# SPDX-License-Identifier: Apache-2.0
#
# WASI: programs with files and a clock; neither shared libraries nor threads.
set(UNIX 1)
set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS FALSE)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
