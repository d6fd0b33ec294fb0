# SPDX-License-Identifier: Apache-2.0
#
#   rubato_instrument(TARGET [DISTANCE n] [REPORT file] [LOCAL_EXEC] [SUMMARY])
#       Compiles checkpoints into the C and C++ sources of TARGET, by librubato-pass.so for Clang 19
#       or librubato-pass-NN.so for Clang NN, as fits the compiler in use. DISTANCE: estimated
#       instructions between two checkpoints, 3000 by default. REPORT: a file that gets one line of
#       JSON per source. LOCAL_EXEC: the target is a program that links librubato statically.
#       SUMMARY: a line per source on stderr. See docs/PASS.md.
#
# For users of find_package(rubato), and for this build.

# The versions of Clang that there can be a plugin for, the best first.
set(RUBATO_PASS_CLANGS 19 16 15 14)

# The plugin of this build for that Clang, or the one beside the installed package; else nothing.
function(_rubato_pass_for version out)
  set(${out} "" PARENT_SCOPE)
  set(installed ${RUBATO_PASS_FOLDER}/librubato-pass-${version}.so)
  if(version STREQUAL 19)
    set(installed ${RUBATO_PASS_FOLDER}/librubato-pass.so)
  endif()
  if(TARGET rubato_pass_${version})
    set(${out} $<TARGET_FILE:rubato_pass_${version}> PARENT_SCOPE)
  elseif(DEFINED RUBATO_PASS_FOLDER AND EXISTS ${installed})
    set(${out} ${installed} PARENT_SCOPE)
  endif()
endfunction()

# The version of the Clang that compiles C and C++ here.
function(_rubato_clang_version out)
  set(there)
  foreach(version IN LISTS RUBATO_PASS_CLANGS)
    _rubato_pass_for(${version} plugin)
    if(plugin)
      list(APPEND there ${version})
    endif()
  endforeach()
  if(NOT there)
    message(FATAL_ERROR "rubato_instrument: this rubato was built without librubato-pass.so "
                        "(llvm-19-dev was missing)")
  endif()
  list(GET there 0 best)
  list(JOIN there ", " all)
  set(used)
  foreach(language C CXX)
    if(NOT CMAKE_${language}_COMPILER_LOADED)
      continue()
    endif()
    set(compiler "${CMAKE_${language}_COMPILER_ID} ${CMAKE_${language}_COMPILER_VERSION}")
    string(REGEX MATCH "^Clang ([0-9]+)" is_clang "${compiler}")
    if(NOT is_clang OR NOT CMAKE_MATCH_1 IN_LIST there)
      message(FATAL_ERROR "rubato_instrument takes Clang ${all} (configure with "
                          "-DCMAKE_C_COMPILER=clang-${best} -DCMAKE_CXX_COMPILER=clang++-${best}), "
                          "not ${compiler}")
    endif()
    list(APPEND used ${CMAKE_MATCH_1})
  endforeach()
  list(REMOVE_DUPLICATES used)
  list(LENGTH used versions)
  if(NOT versions EQUAL 1)
    list(JOIN used " and " both)
    message(FATAL_ERROR "rubato_instrument takes one Clang for C and C++, not ${both}")
  endif()
  set(${out} ${used} PARENT_SCOPE)
endfunction()

function(rubato_instrument target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LOCAL_EXEC;SUMMARY" "DISTANCE;REPORT" "")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "rubato_instrument takes TARGET [DISTANCE n] [REPORT file] [LOCAL_EXEC] "
                        "[SUMMARY], not ${arg_UNPARSED_ARGUMENTS} ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "rubato_instrument: there is no target ${target}")
  endif()
  if(DEFINED arg_DISTANCE AND NOT arg_DISTANCE MATCHES "^[0-9]+$")
    message(FATAL_ERROR "rubato_instrument: DISTANCE takes a number, not ${arg_DISTANCE}")
  endif()
  _rubato_clang_version(version)
  _rubato_pass_for(${version} plugin)
  set(flags -fplugin=${plugin} -fpass-plugin=${plugin})
  if(DEFINED arg_DISTANCE)
    list(APPEND flags "SHELL:-mllvm -rubato-distance=${arg_DISTANCE}")
  endif()
  if(DEFINED arg_REPORT)
    cmake_path(ABSOLUTE_PATH arg_REPORT BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    list(APPEND flags "SHELL:-mllvm -rubato-pass-report=${arg_REPORT}")
  endif()
  if(arg_LOCAL_EXEC)
    list(APPEND flags "SHELL:-mllvm -rubato-local-exec")
  endif()
  if(arg_SUMMARY)
    list(APPEND flags "SHELL:-mllvm -rubato-pass-summary")
  endif()
  foreach(flag IN LISTS flags)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:${flag}>")
  endforeach()
  # A compiler cache would not see that the plugin or its report has changed.
  set_target_properties(${target} PROPERTIES C_COMPILER_LAUNCHER "" CXX_COMPILER_LAUNCHER "")
  if(TARGET rubato_pass_${version})
    add_dependencies(${target} rubato_pass_${version})
  else()
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY
                 OBJECT_DEPENDS ${plugin})
  endif()
endfunction()
