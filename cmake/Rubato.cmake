# SPDX-License-Identifier: Apache-2.0
#
# The kinds of target this project has. All include relative to src/, include/ and apps/.
#
#   rubato_library(NAME [SOURCES ...] [DEPS ...] [PRIVATE_DEPS ...] [OWN_HEADERS])
#       Static library; without SOURCES a header-only one. With OWN_HEADERS it precompiles others
#       than the common ones, or none.
#   rubato_common_headers(NAME KIND)
#       Has the sources of NAME, a target of KIND library, program or test, start from headers that
#       many include, compiled once for each kind.
#   rubato_policy_units(NAME SOURCE [HEADERS ...])
#       Compiles SOURCE into the target NAME once per policy of src/policy/all.h, in a unit that
#       includes its header and defines RUBATO_POLICY, the class, and RUBATO_POLICY_UNIT, a number
#       below RUBATO_POLICIES, which all sources of NAME know. See src/policy/unit.h. The HEADERS
#       that the units share are compiled once.
#   rubato_test(NAME SOURCES ... [DEPS ...] [LABELS ...] [TIMEOUT seconds] [SERIAL] [LATE])
#       GoogleTest program; each case is one ctest test, named NAME.Suite.case and labelled with
#       the folder it is in (`src/runtime/...` gets `runtime`) and LABELS. A case whose name the
#       program does not find (a `-` in it reads as "but not") fails. LATE: `make check` goes
#       without; its cases have the label `late`.
#   rubato_bench(NAME SOURCES ... [DEPS ...])
#       Google Benchmark program, built into <build>/benchmarks.
#   rubato_fuzz(NAME SOURCES ... [DEPS ...] [CORPUS folder ...] [DICTIONARY file] [WHOLE]
#               [RUNS n])
#       LLVMFuzzerTestOneInput. With RUBATO_FUZZ a libFuzzer program in <build>/fuzzers; else a
#       ctest test that replays the corpus and some seeded mutations of it. WHOLE: it links a whole
#       server or simulator, which takes minutes to build, so that `make test` only replays it;
#       `make fuzz` builds and runs it, too. RUNS: so many mutations are replayed, else 20 000, or
#       1000 of a WHOLE one.

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH RUBATO_ROOT)

set(RUBATO_TEST_TIMEOUT 60)
# What a test says of itself are lines; variables would be a sixth of the time it compiles.
set(RUBATO_TEST_OPTIONS -g1)
# Sanitizers and emulators slow code down by about this factor.
set(RUBATO_SLOW_TIMEOUT_FACTOR 5)

# Off: every source compiles the headers that it includes, which shows that it includes what it
# needs. (Only GCC takes a compiled header for targets whose definitions differ.)
option(RUBATO_PRECOMPILED_HEADERS "Compile the headers of the tests and the policies once" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(RUBATO_PRECOMPILED_HEADERS OFF)
endif()

# What the verbs of the Makefile build.
foreach(kind benches fuzzers fuzzers_whole)
  if(NOT TARGET ${kind})
    add_custom_target(${kind})
  endif()
endforeach()

function(_rubato_include_roots name visibility)
  target_include_directories(${name} ${visibility}
    $<BUILD_INTERFACE:${RUBATO_ROOT}/src>
    $<BUILD_INTERFACE:${RUBATO_ROOT}/include>
    $<BUILD_INTERFACE:${RUBATO_ROOT}/apps>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# (Sources in C would need them in C as well.)
function(rubato_common_headers name kind)
  get_target_property(sources ${name} SOURCES)
  if(NOT RUBATO_PRECOMPILED_HEADERS OR "${sources}" MATCHES "\\.c(;|$)")
    return()
  endif()
  set(common rubato_${kind}_headers)
  if(NOT TARGET ${common})
    set(source ${CMAKE_BINARY_DIR}/${common}.cc)
    if(kind STREQUAL "library")
      file(CONFIGURE OUTPUT ${source} CONTENT "")
      add_library(${common} STATIC ${source})
    else()
      file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
      add_executable(${common} ${source})
    endif()
    target_precompile_headers(${common} PRIVATE
      <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <filesystem> <fstream> <functional>
      <map> <memory> <mutex> <optional> <random> <span> <sstream> <string> <string_view> <thread>
      <unordered_map> <utility> <variant> <vector>)
    if(kind STREQUAL "test")
      target_compile_options(${common} PRIVATE ${RUBATO_TEST_OPTIONS})
      target_link_libraries(${common} PRIVATE GTest::gtest)
      target_precompile_headers(${common} PRIVATE <gtest/gtest.h>)
    elseif(kind STREQUAL "program")
      target_link_libraries(${common} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
      target_precompile_headers(${common} PRIVATE <fmt/format.h> <nlohmann/json.hpp>)
    endif()
  endif()
  target_precompile_headers(${name} REUSE_FROM ${common})
  # GCC does not know of compiled code that it is a system header's, so it reports what it cannot
  # prove of the sums of strings there.
  target_compile_options(${name} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                                         -Wno-stringop-overread)
endfunction()

function(rubato_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_HEADERS" "" "SOURCES;DEPS;PRIVATE_DEPS")
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    _rubato_include_roots(${name} PUBLIC)
    target_compile_features(${name} PUBLIC cxx_std_20)
    target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
    if(NOT arg_OWN_HEADERS)
      rubato_common_headers(${name} library)
    endif()
  else()
    add_library(${name} INTERFACE)
    _rubato_include_roots(${name} INTERFACE)
    target_compile_features(${name} INTERFACE cxx_std_20)
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
  endif()
endfunction()

# Where policy/all.h and the headers that it includes are looked for.
set(RUBATO_POLICY_ROOTS ${RUBATO_ROOT}/src)

# The classes of the list in policy/all.h, and of each the header that defines it.
function(_rubato_policies classes_out headers_out)
  unset(all_h)
  find_file(all_h policy/all.h PATHS ${RUBATO_POLICY_ROOTS} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
            NO_CACHE REQUIRED)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${all_h})
  file(READ ${all_h} text)
  string(REGEX MATCH "using AllPolicies = TypeList<([^;]*)>;" found "${text}")
  string(REGEX REPLACE "//[^\n]*|[ \n]" "" listed "${CMAKE_MATCH_1}")
  string(REPLACE "," ";" classes "${listed}")
  string(REGEX MATCHALL "\"policy/[a-z_]+\\.h\"" included "${text}")
  foreach(header IN LISTS included)
    string(REPLACE "\"" "" header ${header})
    unset(path)
    find_file(path ${header} PATHS ${RUBATO_POLICY_ROOTS} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
            NO_CACHE REQUIRED)
    file(STRINGS ${path} defined REGEX "^(class|struct) [A-Za-z0-9]+ ")
    foreach(line IN LISTS defined)
      string(REGEX REPLACE "^(class|struct) ([A-Za-z0-9]+) .*" "\\2" class "${line}")
      set(header_of_${class} ${header})
    endforeach()
  endforeach()
  foreach(class IN LISTS classes)
    if(NOT header_of_${class})
      message(FATAL_ERROR "policy/all.h lists ${class}, and no header that it includes has it")
    endif()
    list(APPEND headers ${header_of_${class}})
  endforeach()
  set(${classes_out} ${classes} PARENT_SCOPE)
  set(${headers_out} ${headers} PARENT_SCOPE)
endfunction()

function(rubato_policy_units name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS")
  if(arg_HEADERS AND RUBATO_PRECOMPILED_HEADERS)
    get_target_property(others ${name} SOURCES)
    set_source_files_properties(${others} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    list(TRANSFORM arg_HEADERS PREPEND ${RUBATO_ROOT}/src/)
    target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  endif()
  _rubato_policies(classes headers)
  list(LENGTH classes count)
  target_compile_definitions(${name} PRIVATE RUBATO_POLICIES=${count})
  cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE from_src)
  cmake_path(RELATIVE_PATH from_src BASE_DIRECTORY ${RUBATO_ROOT}/src)
  cmake_path(GET source STEM stem)
  set(unit 0)
  foreach(class header IN ZIP_LISTS classes headers)
    set(unit_source ${CMAKE_CURRENT_BINARY_DIR}/${stem}_${class}.cc)
    file(CONFIGURE OUTPUT ${unit_source} CONTENT "#define RUBATO_POLICY ${class}
#define RUBATO_POLICY_UNIT ${unit}
#include \"${header}\"
#include \"${from_src}\"\n")
    target_sources(${name} PRIVATE ${unit_source})
    math(EXPR unit "${unit} + 1")
  endforeach()
endfunction()

# `src/runtime/x` -> runtime, `apps/kv_server` -> kv_server, `cli` -> cli.
function(_rubato_folder_label out)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${RUBATO_ROOT}
             OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "^(src|apps)/" "" folder "${folder}")
  string(REGEX REPLACE "/.*$" "" folder "${folder}")
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# `tests_LABEL` builds the programs with the tests of that label, so that a sanitizer run need not
# build everything.
function(_rubato_add_to_label label name)
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  add_dependencies(tests_${label} ${name})
endfunction()

function(_rubato_timeout out wanted)
  if(NOT wanted)
    set(wanted ${RUBATO_TEST_TIMEOUT})
  endif()
  if(RUBATO_SANITIZE OR CMAKE_CROSSCOMPILING)
    math(EXPR wanted "${wanted} * ${RUBATO_SLOW_TIMEOUT_FACTOR}")
  endif()
  set(${out} ${wanted} PARENT_SCOPE)
endfunction()

function(rubato_test name)
  if(NOT RUBATO_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;LATE" "TIMEOUT" "SOURCES;DEPS;LABELS")
  add_executable(${name} ${arg_SOURCES})
  _rubato_include_roots(${name} PRIVATE)
  rubato_common_headers(${name} test)
  target_compile_options(${name} PRIVATE ${RUBATO_TEST_OPTIONS})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gtest GTest::gtest_main Threads::Threads)
  _rubato_folder_label(folder)
  _rubato_timeout(timeout "${arg_TIMEOUT}")
  include(GoogleTest)
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       TEST_LIST ${name}_CASES PROPERTIES TIMEOUT ${timeout}
                       RUN_SERIAL ${arg_SERIAL} FAIL_REGULAR_EXPRESSION "Running 0 tests")
  list(PREPEND arg_LABELS ${folder})
  if(arg_LATE)
    list(APPEND arg_LABELS late)
  endif()
  # gtest_discover_tests loses all but the first of several labels, so they are set afterwards.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  file(WRITE ${labels_file} "if(${name}_CASES)\n  set_tests_properties(\${${name}_CASES}\n"
       "    PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  if(arg_LATE)
    return()
  endif()
  foreach(label IN LISTS arg_LABELS)
    _rubato_add_to_label(${label} ${name})
  endforeach()
endfunction()

function(rubato_bench name)
  if(NOT RUBATO_BENCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  _rubato_include_roots(${name} PRIVATE)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} benchmark::benchmark benchmark::benchmark_main
                                        Threads::Threads)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/benchmarks)
  add_dependencies(benches ${name})
  # A short run, so that benchmarks cannot rot, without stores that take seconds to fill; numbers
  # worth quoting come from `make bench`.
  add_test(NAME ${name}.smoke
           COMMAND ${name} --benchmark_min_time=0.01 --benchmark_filter=-/1000000)
  set_tests_properties(${name}.smoke PROPERTIES LABELS bench TIMEOUT 120)
endfunction()

function(rubato_fuzz name)
  if(NOT RUBATO_FUZZ AND NOT RUBATO_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "DICTIONARY;RUNS" "SOURCES;DEPS;CORPUS")
  add_executable(${name} ${arg_SOURCES})
  _rubato_include_roots(${name} PRIVATE)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} Threads::Threads)
  set(corpus)
  foreach(folder IN LISTS arg_CORPUS)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    list(APPEND corpus ${folder})
  endforeach()
  if(RUBATO_FUZZ)
    if(RUBATO_FUZZ_ENGINE)
      target_link_libraries(${name} PRIVATE ${RUBATO_FUZZ_ENGINE})
    else()
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endif()
    foreach(folder IN LISTS corpus)
      set_property(GLOBAL APPEND_STRING PROPERTY RUBATO_CORPORA "${name} ${folder}\n")
    endforeach()
    get_property(corpora GLOBAL PROPERTY RUBATO_CORPORA)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzzers/corpora "${corpora}")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    set(label fuzz)
    if(arg_WHOLE)
      set(label fuzz_whole)
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
      add_dependencies(fuzzers_whole ${name})
    else()
      add_dependencies(fuzzers ${name})
    endif()
    set(dictionary)
    if(arg_DICTIONARY)
      set(dictionary -dict=${CMAKE_CURRENT_SOURCE_DIR}/${arg_DICTIONARY})
    endif()
    # The first folder takes what libFuzzer finds, the others are only read.
    set(found ${CMAKE_BINARY_DIR}/fuzzers/${name}.found)
    file(MAKE_DIRECTORY ${found})
    add_test(NAME ${name} COMMAND ${name} -max_total_time=${RUBATO_FUZZ_SECONDS} -timeout=10
             -rss_limit_mb=2048 -print_final_stats=1 ${dictionary} ${found} ${corpus}
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    math(EXPR timeout "${RUBATO_FUZZ_SECONDS} * 2 + 60")
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout})
  else()
    target_sources(${name} PRIVATE ${RUBATO_ROOT}/tools/fuzz_replay.cc)
    _rubato_folder_label(folder)
    _rubato_timeout(timeout "")
    set(runs)
    if(arg_WHOLE)
      set(runs -runs=1000)
    endif()
    if(arg_RUNS)
      set(runs -runs=${arg_RUNS})
    endif()
    add_test(NAME ${name}.replay COMMAND ${name} ${runs} ${corpus})
    set_tests_properties(${name}.replay PROPERTIES LABELS "${folder};fuzz" TIMEOUT ${timeout})
    _rubato_add_to_label(${folder} ${name})
  endif()
endfunction()
