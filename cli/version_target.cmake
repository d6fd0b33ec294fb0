# SPDX-License-Identifier: Apache-2.0
#
# The target rubato_version, which writes ${version_source}: the source of cli/version.h, which
# programs compile. For the one folder of a build that has them.
set(version_source ${CMAKE_CURRENT_BINARY_DIR}/version.cc)
add_custom_target(rubato_version
  COMMAND ${CMAKE_COMMAND} -DROOT=${RUBATO_ROOT} -DOUT=${version_source}
          -DHEADER=cli/common/command_registry.h -DFUNCTION=rubato::cli::version
          -DFALLBACK=${PROJECT_VERSION} -P ${RUBATO_ROOT}/cli/version.cmake
  BYPRODUCTS ${version_source} VERBATIM)
