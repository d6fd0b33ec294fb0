# SPDX-License-Identifier: Apache-2.0
#
# Compiler settings of every target of this build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "WASI")
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()

# Simulated results are the same to the bit everywhere, so products and sums are not fused.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-ffp-contract=off>")

if(PROJECT_IS_TOP_LEVEL)
  # `cmake --compile-no-warning-as-error` turns this off for compilers newer than ours.
  if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
    set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-Wall;-Wextra;-Wpedantic;-Wshadow>")
  # Sizes and differences of 32 bits change sign and width where those of servers' machines do not.
  if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
    add_compile_options(-Wno-sign-compare -Wno-shift-count-overflow)
  else()
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-Wconversion;-Wsign-conversion>")
  endif()
  # The stable_sort of libstdc++ 12 uses what that library deprecates, and Clang reports it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>")
  endif()
  # GCC 12 sees an overlap in `"text" + std::to_string(n)` that is not there (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
    # Where an optimised variable is at each instruction costs a fifth of the time it compiles.
    add_compile_options(-fno-var-tracking-assignments)
    # ccache reads which compiled header a source takes from what the preprocessor leaves of it.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

if(RUBATO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RUBATO_FUZZ takes clang++ (libFuzzer); use the preset `fuzz`")
  endif()
  # Whoever brings an engine (OSS-Fuzz) brings the options of the compiler for it, too.
  set(RUBATO_FUZZ_ENGINE "" CACHE STRING "Option or library that links a fuzzing engine")
  if(NOT RUBATO_FUZZ_ENGINE)
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g1)
    add_link_options(-fsanitize=address,undefined)
  endif()
elseif(RUBATO_SANITIZE)
  # Reports show lines, no variables: that is a third of the time it takes to build. The checks left
  # out are another third; what they find AddressSanitizer sees as well.
  add_compile_options(-fsanitize=${RUBATO_SANITIZE} -fno-sanitize-recover=all -g1)
  if(RUBATO_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,object-size,vptr)
  endif()
  add_link_options(-fsanitize=${RUBATO_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code makes GCC 12 warn of values that the plain build proves initialised, and
    # GCC's TSan does not know fences, which -Wtsan reports at each of them.
    add_compile_options(-Wno-maybe-uninitialized)
    if(RUBATO_SANITIZE MATCHES "thread")
      add_compile_options(-Wno-tsan)
    endif()
  endif()
endif()

# mold links tests in a quarter of the time of GNU ld, with GCC since 12.1.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT CMAKE_CROSSCOMPILING
   AND NOT CMAKE_SYSTEM_NAME STREQUAL "WASI")
  find_program(RUBATO_MOLD mold)
  if(RUBATO_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  find_program(RUBATO_CCACHE ccache)
  if(RUBATO_CCACHE)
    # The first two let it keep what was compiled with a compiled header.
    set(sloppiness pch_defines,time_macros,include_file_mtime,include_file_ctime)
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=${sloppiness} ${RUBATO_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  endif()
endif()
