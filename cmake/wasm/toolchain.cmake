# SPDX-License-Identifier: Apache-2.0
#
# WebAssembly with WASI: Debian's clang-19, lld-19, wasi-libc and libc++-19-dev-wasm32. One thread,
# no exceptions (site/wasm/exceptions.cc), no networks.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
# Findfmt.cmake there: the distribution's compiled library is the host's.
set(CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
set(CMAKE_CXX_FLAGS_INIT
  "-fexceptions -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_MMAN")
string(APPEND CMAKE_CXX_FLAGS_INIT " -include ${CMAKE_CURRENT_LIST_DIR}/libcxx.h")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-lwasi-emulated-signal -lwasi-emulated-mman")
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,--strip-all -Wl,-z,stack-size=1048576")
