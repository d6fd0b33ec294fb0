#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Debian packages of the files that git knows into build/deb, and has lintian look at
# them. With --valkey it is the package of Valkey, into build/valkey-deb. With --twice it builds
# them again elsewhere and compares: the packages are reproducible.
set -euo pipefail
cd "$(dirname "$0")/.."
debian=packaging/debian
out=build/deb
twice=
for option in "$@"; do
  case $option in
    --valkey) debian=packaging/valkey/debian out=build/valkey-deb ;;
    --twice) twice=1 ;;
    *) echo "deb: expected --valkey or --twice, not '$option'" >&2; exit 2 ;;
  esac
done

for tool in dh lintian; do
  command -v $tool >/dev/null && continue
  echo "deb: needs the packages debhelper and lintian" >&2
  exit 1
done
name=rubato-$(dpkg-parsechangelog -l "$debian/changelog" -S Version)
log=$PWD/$out.log
mkdir -p build
[ "$debian" = packaging/debian ] || tools/valkey.sh --fetch

# build FOLDER: the packages are in FOLDER then.
build() {
  rm -rf "$1"
  mkdir -p "$1/$name"
  git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$1/$name"
  cp -r "$debian" "$1/$name/debian"
  if [ "$debian" != packaging/debian ]; then
    mkdir -p "$1/$name/build/valkey-source"
    cp build/valkey-source/*.orig.tar.* "$1/$name/build/valkey-source"
  fi
  (cd "$1/$name" && dpkg-buildpackage --no-sign --build=binary) >"$log" 2>&1 \
    || { tail -20 "$log" >&2; exit 1; }
  rm -rf "${1:?}/$name"
}

build "$out"
lintian --fail-on error,warning --info "$out"/*.changes
if [ -n "$twice" ]; then
  build "$out-again"
  for package in "$out"/*.deb; do cmp "$package" "$out-again/$(basename "$package")"; done
  rm -rf "$out-again"
fi
ls "$out"/*.deb
