#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests build/valkey/valkey-server: histories of concurrent clients, then parts of Valkey's own test
# suite, or all of it, as tools/valkey_suite.py says; needs tcl, and tcl-tls for TLS.
#
#   tools/valkey_test.sh [all | quick | UNIT ...]     units as `runtest --single` takes them
#
# With ASAN=1 ours run once more with build/valkey-asan/valkey-server, under AddressSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=$PWD/build/valkey/tree
seed=${RUBATO_SEED:-20261126}
parts=(unit/keyspace unit/scan unit/expire unit/other unit/multi unit/info unit/introspection
       unit/pause unit/limits unit/maxmemory unit/lazyfree unit/tracking unit/pubsub unit/querybuf
       unit/obuf-limits unit/client-eviction unit/type/hash unit/type/list unit/type/set
       unit/type/zset unit/type/stream unit/type/string unit/sort unit/scripting unit/functions
       unit/slowlog unit/commandlog unit/latency-monitor unit/acl unit/info-command
       integration/replication integration/aof integration/rdb)
case ${1:-} in
  "") ;;
  all) ;;
  quick) parts=(unit/type/hash unit/multi unit/scripting) ;;
  *) parts=("$@") ;;
esac

ours() { PYTHONDONTWRITEBYTECODE=1 python3 -W error -m unittest discover -v -s tests/valkey; }
ours
if [ -n "${ASAN:-}" ]; then
  tools/valkey.sh --asan
  VALKEY_SERVER=$PWD/build/valkey-asan/valkey-server ours
fi

if ! command -v tclsh >/dev/null; then
  echo "valkey_test: no tclsh, so no parts of Valkey's suite" >&2
  exit 77
fi
if [ "${1:-}" = all ]; then
  exec tools/valkey_suite.py --clients "${JOBS:-2}" --seed "$seed" --all
fi
selected=()
for part in "${parts[@]}"; do
  if [ -e "$tree/tests/$part.tcl" ]; then selected+=("$part"); fi
done
exec tools/valkey_suite.py --clients "${JOBS:-2}" --seed "$seed" "${selected[@]}"
