# SPDX-License-Identifier: Apache-2.0
#
# An overlay port: `vcpkg install rubato --overlay-ports=packaging/vcpkg`, from a clone. Untested:
# this project's tests have no vcpkg.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DRUBATO_TESTS=OFF -DRUBATO_BENCH=OFF)
vcpkg_cmake_build(TARGET librubato)
foreach(kind dbg rel)
  set(prefix ${CURRENT_PACKAGES_DIR})
  if(kind STREQUAL "dbg")
    set(prefix ${CURRENT_PACKAGES_DIR}/debug)
  endif()
  vcpkg_execute_required_process(
    COMMAND ${CMAKE_COMMAND} --install "${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-${kind}"
            --prefix "${prefix}" --component library
    WORKING_DIRECTORY "${SOURCE_PATH}" LOGNAME install-${TARGET_TRIPLET}-${kind})
endforeach()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/rubato)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
