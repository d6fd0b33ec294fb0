# SPDX-License-Identifier: Apache-2.0
#
# For the tests of kernel modules: sourced by native/*/test/run.sh, which run one program in an
# emulated machine. Needs no privileges: whatever is not installed is fetched from the distribution
# and unpacked in the work folder, and kept there.

skip() {
  echo "SKIP: $*"
  exit 77
}

# need TOOL PACKAGE ...: pairs.
need() {
  while [ $# -gt 0 ]; do
    command -v "$1" >/dev/null || skip "no $1 (Debian: $2)"
    shift 2
  done
}

# fetch PACKAGE...: puts the packages' files into $work/debs.
fetch() {
  mkdir -p "$work/debs"
  (cd "$work/debs" && apt-get -qq download "$@" >fetch.log 2>&1) \
    || skip "cannot fetch $*: $(grep -m1 '^E:' "$work/debs/fetch.log" || echo 'apt-get failed')"
}

# dependency PACKAGE: what the distribution's package without a version stands for.
dependency() {
  apt-cache depends "$1" 2>/dev/null \
    | sed -n 's/^ *Depends: \(linux-[a-z]*-[0-9].*\)$/\1/p' | head -1
}

# get_kernel IMAGE_PACKAGE HEADERS_PACKAGE: sets `release`, `kernel` (its image) and `headers` (a
# folder to build modules against).
get_kernel() {
  release=${1#linux-image-}
  kernel=$work/root/boot/vmlinuz-$release
  headers=$work/root/usr/src/linux-headers-$release
  if [ ! -e "$work/root/.$release" ]; then
    common=$(apt-cache depends "$2" | sed -n 's/^ *Depends: \(linux-headers-.*-common\)$/\1/p')
    kbuild=$(apt-cache depends "$2" | sed -n 's/^ *Depends: \(linux-kbuild-.*\)$/\1/p')
    if [ -z "$common" ] || [ -z "$kbuild" ]; then skip "no headers for $release"; fi
    fetch "$1" "$2" "$common" "$kbuild"
    mkdir -p "$work/root"
    for package in "$2" "$common" "$kbuild"; do
      dpkg-deb -x "$work/debs/$package"_*.deb "$work/root"
    done
    dpkg-deb --fsys-tarfile "$work/debs/$1"_*.deb \
      | tar -x -C "$work/root" --wildcards './boot/vmlinuz-*'
    rm "$work/debs"/*.deb
    sed -i "s#^include /usr/src#include $work/root/usr/src#" "$headers/Makefile"
    touch "$work/root/.$release"
  fi
}

# build_module NAME: NAME.ko from native/NAME_OF_FOLDER, given as the second argument.
build_module() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/native" "$work/tree/src/mechanism/preempt"
  cp -r "$source_root/native/$2" "$source_root/native/device_owner.h" "$work/tree/native/"
  cp "$source_root"/src/mechanism/preempt/*_abi.h "$work/tree/src/mechanism/preempt/"
  # The headers come without the tools and the kernel for type information (BTF).
  make -s -C "$work/tree/native/$2" "KDIR=$headers" CONFIG_DEBUG_INFO_BTF_MODULES= \
    >"$work/module.log" 2>&1 \
    || { cat "$work/module.log"; echo "FAIL: $1.ko does not build"; exit 1; }
  module=$work/tree/native/$2/$1.ko
}

# build_guest SOURCES...: the only program, statically linked: $work/init.
build_guest() {
  (cd "$source_root" && g++ -std=c++20 -O2 -static -Wall -Wextra -Wshadow -Wconversion -Werror \
    -Isrc -I. "$@" -pthread -s -o "$work/init")
}

# build_initrd: $work/initrd.gz with the program and the module.
build_initrd() {
  rm -rf "$work/initrd"
  mkdir -p "$work/initrd/proc" "$work/initrd/sys" "$work/initrd/dev"
  cp "$work/init" "$module" "$work/initrd/"
  (cd "$work/initrd" && find . | cpio -o -H newc --quiet | gzip -1 >"$work/initrd.gz")
}

# judge LOG: prints what the program said; true if it said that all passed, and the kernel said
# nothing bad meanwhile. (What it says before is about the emulator.)
judge() {
  local said
  said=$(tr -d '\r' <"$1" | sed -n '/INFO kernel/,$p')
  grep -aoE '(INFO |PASS |FAIL |RESULT |Kernel panic|BUG:|Call Trace|WARNING:).*' <<<"$said" || true
  grep -qa '^RESULT PASS$' <<<"$said" \
    && ! grep -qaE '^FAIL|Kernel panic|BUG:|WARNING:' <<<"$said"
}
