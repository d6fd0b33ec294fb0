#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots the distribution's own kernel in QEMU, without KVM, with two and with four processors, loads
# rubato_ipi and runs guest.cc against it. Half a minute; the kernel and its headers (85 MB) are
# fetched once. Exits 0 if all passes, 1 if not, 77 with a reason where something is missing.
# RUBATO_KMOD_ROUNDS=<n>: how many interrupts to send, 500 unless told.
#   run.sh SOURCE_ROOT WORK_FOLDER
set -euo pipefail
source_root=$(realpath "${1:?SOURCE_ROOT}")
mkdir -p "${2:?WORK_FOLDER}"
work=$(realpath "$2")
. "$source_root/native/test/common.sh"

[ "$(uname -m)" = x86_64 ] || skip "not an x86-64 machine"
need qemu-system-x86_64 qemu-system-x86 apt-get apt dpkg-deb dpkg cpio cpio make make g++ g++
image=$(dependency linux-image-amd64)
sources=$(dependency linux-headers-amd64)
if [ -z "$image" ] || [ -z "$sources" ]; then skip "apt knows no linux-image-amd64"; fi
[ "${image#linux-image-}" = "${sources#linux-headers-}" ] || skip "$image and $sources differ"

get_kernel "$image" "$sources"
build_module rubato_ipi kmod
preempt=src/mechanism/preempt
build_guest native/kmod/test/guest.cc src/base/check.cc $preempt/entry.cc $preempt/entry_x86_64.S \
  $preempt/kmod.cc $preempt/preempt_disable.cc src/mechanism/cpu/features.cc $preempt/uintr.cc \
  $preempt/testing/state_probe.cc $preempt/testing/state_probe_x86_64.S
build_initrd

status=0
for processors in 2 4; do
  log=$work/qemu-$processors.log
  timeout 240 qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp $processors -m 512 \
    -kernel "$kernel" -initrd "$work/initrd.gz" \
    -append 'console=ttyS0 loglevel=5 panic=-1 rdinit=/init -- '"${RUBATO_KMOD_ROUNDS:-500}" \
    -nographic -no-reboot -nodefaults -serial stdio </dev/null >"$log" 2>&1 || true
  judge "$log" || { status=1; echo "FAIL with $processors processors; see $log"; }
done
exit $status
