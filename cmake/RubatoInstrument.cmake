# SPDX-License-Identifier: Apache-2.0
#
#   rubato_instrument(TARGET [DISTANCE n] [REPORT file] [LOCAL_EXEC] [SUMMARY])
#       Compiles checkpoints into the C and C++ sources of TARGET by librubato-pass.so; takes
#       Clang 19. DISTANCE: estimated instructions between two checkpoints, 3000 by default. REPORT:
#       a file that gets one line of JSON per source. LOCAL_EXEC: the target is a program that links
#       librubato statically. SUMMARY: a line per source on stderr. See docs/PASS.md.
#
# For users of find_package(rubato), and for this build.

set(RUBATO_PASS_CLANG 19)

# The plugin of this build, or the one beside the installed package.
function(_rubato_find_pass out)
  if(TARGET rubato_pass)
    set(${out} $<TARGET_FILE:rubato_pass> PARENT_SCOPE)
  elseif(DEFINED RUBATO_PASS_PLUGIN AND EXISTS "${RUBATO_PASS_PLUGIN}")
    set(${out} ${RUBATO_PASS_PLUGIN} PARENT_SCOPE)
  else()
    message(FATAL_ERROR "rubato_instrument: this rubato was built without librubato-pass.so "
                        "(llvm-${RUBATO_PASS_CLANG}-dev was missing)")
  endif()
endfunction()

function(_rubato_check_clang)
  foreach(language C CXX)
    if(NOT CMAKE_${language}_COMPILER_LOADED)
      continue()
    endif()
    set(id ${CMAKE_${language}_COMPILER_ID})
    set(version ${CMAKE_${language}_COMPILER_VERSION})
    if(NOT id STREQUAL "Clang" OR NOT version MATCHES "^${RUBATO_PASS_CLANG}\\.")
      message(FATAL_ERROR "rubato_instrument takes Clang ${RUBATO_PASS_CLANG} (configure with "
                          "-DCMAKE_C_COMPILER=clang-${RUBATO_PASS_CLANG} "
                          "-DCMAKE_CXX_COMPILER=clang++-${RUBATO_PASS_CLANG}), "
                          "not ${id} ${version}")
    endif()
  endforeach()
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
  _rubato_check_clang()
  _rubato_find_pass(plugin)
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
  if(TARGET rubato_pass)
    add_dependencies(${target} rubato_pass)
  else()
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY
                 OBJECT_DEPENDS ${plugin})
  endif()
endfunction()
