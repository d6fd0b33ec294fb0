#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots a kernel of the distribution's backports in Bochs, the only emulator with user interrupts,
# loads rubato_uintr and runs guest.cc against it. Bochs 3.0 is fetched as source from the next
# release, mended (bochs-3.0.patch) and built, which takes minutes once; then it is one or two.
# Exits 0 if all passes, 1 if not, 77 with a reason where something is missing. For Debian 12.
#   run.sh SOURCE_ROOT WORK_FOLDER
set -euo pipefail
source_root=$(realpath "${1:?SOURCE_ROOT}")
mkdir -p "${2:?WORK_FOLDER}"
work=$(realpath "$2")
. "$source_root/native/test/common.sh"
here=$source_root/native/uintr/test
boot_seconds=${RUBATO_BOCHS_SECONDS:-600}

# A package manager of its own, so that the system's knows nothing of the other releases.
own_apt() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg apt=$work/apt
  local mirror=${RUBATO_DEBIAN_MIRROR:-http://deb.debian.org/debian}
  [ -e "$keys" ] || skip "no $keys (Debian: debian-archive-keyring)"
  mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d} "$apt"/var/lib/apt/lists/partial \
    "$apt"/var/cache/apt/archives/partial "$apt"/var/lib/dpkg
  : >"$apt/var/lib/dpkg/status"
  cat >"$apt/apt.conf" <<X
Dir "$apt";
Dir::State::status "$apt/var/lib/dpkg/status";
APT::Sandbox::User "$(id -un)";
X
  for suite in bookworm bookworm-backports trixie; do
    echo "deb [signed-by=$keys] $mirror $suite main"
  done >"$apt/etc/apt/sources.list"
  echo "deb-src [signed-by=$keys] $mirror trixie main" >>"$apt/etc/apt/sources.list"
  export APT_CONFIG=$apt/apt.conf
  apt-get -qq update >"$work/update.log" 2>&1 \
    || skip "cannot read $mirror: $(tail -1 "$work/update.log")"
}

get_bochs() {
  local folder=$work/bochs/bochs-3.0
  bochs=$folder/bochs
  [ -x "$bochs" ] && return
  mkdir -p "$work/debs" "$work/bochs"
  # The description of the source is not to be had from every mirror, and not needed.
  (cd "$work/debs" && apt-get -qq source --download-only bochs/trixie >fetch.log 2>&1) || true
  [ -e "$work/debs/bochs_3.0+dfsg.orig.tar.xz" ] || skip "cannot fetch the source of Bochs 3.0"
  rm -rf "$folder"
  tar -x -f "$work/debs/bochs_3.0+dfsg.orig.tar.xz" -C "$work/bochs"
  patch -s -d "$folder" -p1 <"$here/bochs-3.0.patch"
  echo "building Bochs (minutes)"
  (cd "$folder" && CFLAGS=-O2 CXXFLAGS=-O2 nice ./configure -q --enable-x86-64 \
    --enable-cpu-level=6 --enable-smp --enable-uintr --enable-avx --enable-evex --enable-amx \
    --enable-cet --enable-memtype --enable-protection-keys --enable-all-optimizations \
    --enable-repeat-speedups --enable-fpu --enable-pci --enable-cdrom --with-nogui \
    --disable-docbook && nice make -s -j"$(nproc)") >"$work/bochs.log" 2>&1 \
    || { tail -5 "$work/bochs.log"; skip "Bochs does not build here; see $work/bochs.log"; }
}

# Firmware, and what makes a bootable disc.
get_tools() {
  tools=$work/tools
  [ -e "$tools/.done" ] && return
  fetch bochsbios/trixie vgabios/bookworm genisoimage/bookworm isolinux/bookworm \
    syslinux-common/bookworm
  mkdir -p "$tools"
  for package in bochsbios vgabios genisoimage isolinux syslinux-common; do
    dpkg-deb -x "$work/debs/${package}_"*.deb "$tools"
  done
  "$tools/usr/bin/genisoimage" --version >/dev/null 2>&1 || skip "genisoimage lacks a library"
  touch "$tools/.done"
}

build_disc() {
  local disc=$work/disc
  rm -rf "$disc"
  mkdir -p "$disc/isolinux"
  cp "$work/initrd.gz" "$disc/ird.gz"
  cp "$kernel" "$disc/vmlinuz"
  cp "$tools/usr/lib/ISOLINUX/isolinux.bin" "$tools/usr/lib/syslinux/modules/bios/ldlinux.c32" \
    "$disc/isolinux/"
  cat >"$disc/isolinux/isolinux.cfg" <<'X'
SERIAL 0 115200
DEFAULT l
PROMPT 0
TIMEOUT 1
LABEL l
 KERNEL /vmlinuz
 APPEND initrd=/ird.gz console=ttyS0 loglevel=5 rdinit=/init panic=0 nokaslr random.trust_cpu=1
X
  "$tools/usr/bin/genisoimage" -quiet -o "$work/test.iso" -b isolinux/isolinux.bin \
    -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$disc"
}

# Runs until the program has said its result, or for $boot_seconds.
boot() {
  rm -f "$work/serial.log"
  mkdir -p "$work/bios"
  cp "$tools/usr/share/bochs/BIOS-bochs-latest" "$tools/usr/share/vgabios/vgabios.bin" "$work/bios/"
  cp "$here/bochsrc" "$work/bochsrc"
  (cd "$work" && exec timeout "$boot_seconds" "$bochs" -q -f bochsrc >bochs.out 2>&1) &
  local emulator=$!
  while kill -0 $emulator 2>/dev/null; do
    sleep 2
    if grep -qaE 'RESULT (PASS|FAIL)|Kernel panic' "$work/serial.log" 2>/dev/null; then
      kill $emulator 2>/dev/null || true
    fi
  done
  wait $emulator || true
}

[ "$(uname -m)" = x86_64 ] || skip "not an x86-64 machine"
need apt-get apt dpkg-deb dpkg cpio cpio make make g++ g++ patch patch
own_apt
get_kernel "$(dependency linux-image-amd64/bookworm-backports)" \
  "$(dependency linux-headers-amd64/bookworm-backports)"
build_module rubato_uintr uintr
preempt=src/mechanism/preempt
build_guest -muintr native/uintr/test/guest.cc src/base/check.cc src/mechanism/cpu/features.cc \
  $preempt/entry.cc $preempt/entry_x86_64.S $preempt/preempt_disable.cc $preempt/uintr.cc \
  $preempt/testing/state_probe.cc $preempt/testing/state_probe_x86_64.S
build_initrd
get_tools
get_bochs
build_disc
boot
judge "$work/serial.log" || { echo "FAIL: see $work/serial.log"; exit 1; }
