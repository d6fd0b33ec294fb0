#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what tools/packages.txt names and this machine lacks, without asking anything and without
# starting a service. Does nothing, offline too, when all is there. With FULL=1 also what only
# `make test-full` takes, with SITE=1 what `make site` does. For Debian 12 and its like.
set -euo pipefail
cd "$(dirname "$0")/.."

list=tools/packages.txt
stamp=build/.setup-${FULL:+full-}${SITE:+site-}$(cksum <"$list" | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0

# A package, or a program of its name from elsewhere: npm comes with other people's nodejs.
installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] \
    || command -v "$1" >/dev/null
}

# missing KIND: the packages of that kind that are not installed.
missing() {
  local kind package rest
  while read -r kind package rest; do
    if [ "$kind" = "$1" ] && ! installed "$package"; then echo "$package"; fi
  done <"$list"
}

finish() { mkdir -p build && touch "$stamp"; }

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no Debian here; the packages needed are listed in $list" >&2
  finish
  exit 0
fi

mapfile -t required < <(missing required)
mapfile -t optional < <(missing optional; [ -z "${FULL:-}" ] || missing full
                        [ -z "${SITE:-}" ] || missing site)
if [ $((${#required[@]} + ${#optional[@]})) -eq 0 ]; then
  finish
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
echo "setup: installing ${required[*]} ${optional[*]}"

# Debian starts a service when its package is installed, unless this file says 101.
no_services=/usr/sbin/policy-rc.d
if [ ! -e "$no_services" ]; then
  trap '"${as_root[@]}" rm -f "$no_services"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$no_services" >/dev/null
  "${as_root[@]}" chmod 755 "$no_services"
fi

log=build/setup.log
mkdir -p build

install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold install "$@" </dev/null >>"$log" 2>&1 \
    || { tail -5 "$log" >&2; return 1; }
}

"${as_root[@]}" apt-get -qq update </dev/null || echo "setup: no fresh package lists" >&2
if [ ${#required[@]} -gt 0 ]; then
  install "${required[@]}" || { echo "setup: cannot install ${required[*]}" >&2; exit 1; }
fi
for package in "${optional[@]}"; do
  install "$package" || echo "setup: going on without $package" >&2
done
finish
