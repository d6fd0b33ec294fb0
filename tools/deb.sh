#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Debian packages of the files that git knows into build/deb, and has lintian look at
# them. With --arm64 they are cross-built for that processor, without the documentation, into
# build/arm64-deb, in a root file system of Debian (build/arm64-deb-root) that has its libraries
# beside the compiler; this takes root. With --valkey it is the package of Valkey, into
# build/valkey-deb. With --twice it builds them again elsewhere and compares: the packages are
# reproducible.
set -euo pipefail
cd "$(dirname "$0")/.."
debian=packaging/debian
out=build/deb
root=
twice=
for option in "$@"; do
  case $option in
    --arm64) out=build/arm64-deb root=build/arm64-deb-root ;;
    --valkey) debian=packaging/valkey/debian out=build/valkey-deb ;;
    --twice) twice=1 ;;
    *) echo "deb: expected --arm64, --valkey or --twice, not '$option'" >&2; exit 2 ;;
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

# source_into FOLDER: what the package is built from.
source_into() {
  mkdir -p "$1"
  git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$1"
  cp -r "$debian" "$1/debian"
  if [ "$debian" != packaging/debian ]; then
    mkdir -p "$1/build/valkey-source"
    cp build/valkey-source/*.orig.tar.* "$1/build/valkey-source"
  fi
}

# logged COMMAND...: the end of its output, where it fails.
logged() { "$@" >>"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }; }

in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

make_root() {
  [ ! -e "$root/.complete" ] || return 0
  [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null ||
    { echo "deb: --arm64 takes root and the package mmdebstrap" >&2; exit 1; }
  echo "deb: Debian with its compiler for arm64 into $root"
  rm -rf --one-file-system "$root"
  logged mmdebstrap --quiet --architectures=amd64,arm64 --variant=buildd \
    --include=crossbuild-essential-arm64 bookworm "$root"
  cp /etc/resolv.conf "$root/etc"
  touch "$root/.complete"
}

# build FOLDER: the packages are in FOLDER then.
build() {
  rm -rf "$1"
  mkdir -p "$1"
  : >"$log"
  if [ -z "$root" ]; then
    source_into "$1/$name"
    (cd "$1/$name" && logged dpkg-buildpackage --no-sign --build=binary)
    rm -rf "${1:?}/$name"
    return
  fi
  make_root
  local at=/build/$1
  rm -rf "${root:?}/build"
  source_into "$root$at/$name"
  mount -t proc proc "$root/proc"
  trap 'umount "$root/proc"' EXIT
  logged in_root apt-get --quiet update
  logged in_root apt-get --quiet --yes --no-install-recommends --host-architecture=arm64 \
    --build-profiles=cross build-dep "$at/$name"
  logged in_root sh -c 'cd "$1" && dpkg-buildpackage --host-arch=arm64 --build-profiles=cross \
    --no-sign --build=any' build "$at/$name"
  umount "$root/proc"
  trap - EXIT
  rm -rf "$root$at/$name"
  mv "$root$at"/* "$1"
}

build "$out"
lintian --fail-on error,warning --info "$out"/*.changes
if [ -n "$twice" ]; then
  build "$out-again"
  for package in "$out"/*.deb; do cmp "$package" "$out-again/$(basename "$package")"; done
  rm -rf "$out-again"
fi
ls "$out"/*.deb
