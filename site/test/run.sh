#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh modules | page: tests of the page's modules, or of the whole page, which is built first:
# its simulator against the native binary RUBATO_BINARY, and the page in Chromium. Exit status 77:
# something is missing, which a line tells.
set -euo pipefail
cd "$(dirname "$0")/../.."

need() {
  command -v "$1" >/dev/null || { echo "skipped: there is no $1"; exit 77; }
}

need node
if [ "$1" = modules ]; then exec node --test site/test/unit/*.test.js; fi
need npm
need chromium
need wasm-ld-19
[ -e /usr/include/wasm32-wasi ] || { echo "skipped: there is no wasi-libc"; exit 77; }
[ -e /usr/lib/llvm-19/include/wasm32-wasi/c++/v1 ] || [ -e /usr/include/wasm32-wasi/c++/v1 ] \
  || { echo "skipped: there is no libc++-19-dev-wasm32"; exit 77; }
tools/site.sh
node --test site/test/simulator/*.test.js
exec node --test site/test/browser/*.test.js
