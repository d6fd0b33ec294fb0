#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Debian packages of the files that git knows into build/deb, and has lintian look at
# them. With --twice it builds them again elsewhere and compares: the packages are reproducible.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in dh lintian; do
  command -v $tool >/dev/null && continue
  echo "deb: needs the packages debhelper and lintian" >&2
  exit 1
done
name=rubato-$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)
log=$PWD/build/deb.log
mkdir -p build

# build FOLDER: the packages are in FOLDER then.
build() {
  rm -rf "$1"
  mkdir -p "$1/$name"
  git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$1/$name"
  cp -r packaging/debian "$1/$name/debian"
  (cd "$1/$name" && dpkg-buildpackage --no-sign --build=binary) >"$log" 2>&1 \
    || { tail -20 "$log" >&2; exit 1; }
  rm -rf "${1:?}/$name"
}

build build/deb
lintian --fail-on error,warning --info build/deb/*.changes
if [ "${1:-}" = --twice ]; then
  build build/deb-again
  for package in build/deb/*.deb; do cmp "$package" "build/deb-again/$(basename "$package")"; done
  rm -rf build/deb-again
fi
ls build/deb/*.deb
