#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What `make site` runs: the page that simulates, build/site/index.html, one file. Installs the
# packages that it takes (kind `site` of tools/packages.txt), compiles the simulator to WebAssembly,
# and bundles it with the modules of site/package-lock.json. Ends with the name of the page.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
modules=build/site/modules
SITE=1 tools/setup.sh
for tool in clang++-19 wasm-ld-19 node npm; do
  command -v "$tool" >/dev/null || { echo "make site: there is no $tool" >&2; exit 1; }
done

mkdir -p build/site
cmake --preset wasm >build/site/configure.log 2>&1 || { tail -20 build/site/configure.log; exit 1; }
cmake --build --preset wasm --target rubato_wasm -j "$jobs"

lock=$(cksum <site/package-lock.json | cut -d' ' -f1)
if [ ! -e "$modules/.$lock" ]; then
  rm -rf "$modules"
  mkdir -p "$modules"
  cp site/package.json site/package-lock.json "$modules"
  npm ci --prefix "$modules" --no-audit --no-fund >build/site/npm.log 2>&1 \
    || { tail -20 build/site/npm.log; exit 1; }
  touch "$modules/.$lock"
fi

python3 tools/reproduce.py --site build/site/papers.json
node site/build.mjs build/wasm/bin/rubato.wasm "$modules/node_modules" build/site/papers.json \
  build/site/index.html
