# SPDX-License-Identifier: Apache-2.0
#
# Run at every build: writes OUT, where FUNCTION of HEADER returns what `git describe` says, or
# FALLBACK outside a checkout, touching the file only when the text changed.
cmake_minimum_required(VERSION 3.24)

execute_process(COMMAND git -C ${ROOT} describe --tags --always --dirty
                OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR described STREQUAL "")
  set(text ${FALLBACK})
elseif(described MATCHES "^v?[0-9]+\\.")
  set(text ${described})
else()
  set(text "${FALLBACK}-${described}")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
"// SPDX-License-Identifier: Apache-2.0
#include \"@HEADER@\"

const char* @FUNCTION@() { return \"@text@\"; }
" @ONLY)
