#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds build/valkey/valkey-server: Valkey with the scheduler inside, from the source package of
# the newer Debian release. tools/valkey.sh --plain builds the same source unchanged into
# build/valkey-plain, to compare with; --asan builds build/valkey-asan, under AddressSanitizer;
# --fetch only brings the source into build/valkey-source. The version is pinned by
# valkey/version.txt; VALKEY_TARBALL names a source of another one instead, to see whether the
# insertions still fit; RUBATO_LIBRARY a librubato.a in place of one that is built here.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

flavour=valkey
preset=release
case ${1:-} in
  "" | --fetch) ;;
  --plain) flavour=valkey-plain ;;
  --asan) flavour=valkey-asan preset=asan ;;
  *) echo "valkey: expected --plain, --asan or --fetch, not '$1'" >&2; exit 2 ;;
esac
out=$root/build/$flavour
sources=$root/build/valkey-source
mkdir -p "$out" "$sources"
read -r version tarball checksum < <(grep -v '^#' valkey/version.txt)
jobs=${JOBS:-$(nproc)}

fail() { echo "valkey: $*" >&2; exit 1; }

# The mirror of Debian that apt is configured with, and its key.
mirror() {
  apt-get indextargets --format '$(SITE) $(RELEASE)' 'Identifier: Packages' 2>/dev/null \
    | awk '$1 ~ /\/debian\/?$/ { print $1; exit }'
}

# Downloads the source package by an apt of its own: that of the system keeps its lists.
download() {
  local apt=$sources/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg site
  site=$(mirror)
  [ -n "$site" ] || fail "apt is configured with no mirror of Debian; put $tarball into $sources"
  mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d} "$apt"/var/lib/dpkg \
    "$apt"/var/lib/apt/lists/partial "$apt"/var/cache/apt/archives/partial
  : >"$apt/var/lib/dpkg/status"
  printf 'Dir "%s";\nDir::State::status "%s";\nAPT::Sandbox::User "root";\n' \
    "$apt" "$apt/var/lib/dpkg/status" >"$apt/apt.conf"
  echo "deb-src [signed-by=$keyring] $site trixie main" >"$apt/etc/apt/sources.list"
  APT_CONFIG=$apt/apt.conf apt-get -qq update
  # The newest packaging may be gone from a mirror that still has the source proper, which is what
  # is wanted; the checksum decides.
  (cd "$sources" && APT_CONFIG=$apt/apt.conf apt-get -qq source --download-only "valkey=$version" \
    >"$sources/apt.log" 2>&1) || true
  [ -e "$sources/$tarball" ] || { cat "$sources/apt.log" >&2; fail "$tarball could not be had"; }
}

if [ -n "${VALKEY_TARBALL:-}" ]; then
  archive=$VALKEY_TARBALL
else
  archive=$sources/$tarball
  [ -e "$archive" ] || download
  echo "$checksum  $archive" | sha256sum --check --status \
    || fail "$archive has another checksum than valkey/version.txt says"
fi

[ "${1:-}" = --fetch ] && exit

# What goes into the build besides the library; when it changes, all is made again.
inputs=$(cat "$archive" valkey/* tools/valkey_insert.py tools/valkey_tables.py tools/valkey.sh \
  | sha256sum | cut -c1-16)
if [ "$(cat "$out/inputs" 2>/dev/null)" != "$inputs" ]; then
  rm -rf "$out/tree" "$out/inputs"
  mkdir -p "$out/tree"
  tar -xf "$archive" -C "$out/tree" --strip-components=1
  if [ $flavour != valkey-plain ]; then
    python3 tools/valkey_insert.py valkey/insertions.txt "$out/tree/src"
    cp valkey/*.c valkey/*.h "$out/tree/src"
    python3 tools/valkey_tables.py valkey "$out/tree/src"
  fi
  echo "$inputs" >"$out/inputs"
fi

have() { pkg-config --exists "$1" 2>/dev/null && echo yes || echo no; }
options=(BUILD_TLS="$(have openssl)" USE_SYSTEMD="$(have libsystemd)")
command -v ccache >/dev/null && options+=(CC="ccache ${CC:-gcc}")
if [ $preset = asan ]; then options+=(SANITIZER=address OPTIMIZATION=-O1); fi
if [ $flavour != valkey-plain ]; then
  library=${RUBATO_LIBRARY:-$root/build/$preset/src/api/librubato.a}
  if [ -z "${RUBATO_LIBRARY:-}" ]; then
    cmake --preset $preset >/dev/null
    cmake --build --preset $preset --target rubato_static -j "$jobs" >/dev/null
  fi
  runtime=
  [ $preset != asan ] || runtime=-fsanitize=undefined
  options+=(RUBATO_CFLAGS="-I$root/include" RUBATO_LIBS="$library -lstdc++ $runtime")
  # Valkey's Makefile does not know the library.
  [ "$library" -ot "$out/tree/src/valkey-server" ] || rm -f "$out/tree/src/valkey-server"
fi
make -C "$out/tree" -j "$jobs" "${options[@]}" >"$out/build.log" 2>&1 \
  || { grep -E ' error|Error ' "$out/build.log" | tail >&2; fail "see $out/build.log"; }
if [ $flavour = valkey ]; then python3 tools/valkey_tables.py --statics valkey "$out/tree/src"; fi
for program in server cli benchmark sentinel check-rdb check-aof; do
  ln -sf "tree/src/valkey-$program" "$out/valkey-$program"
done
cp "$out/tree/COPYING" "$out/COPYING"
echo "$out/valkey-server: $("$out/valkey-server" --version)"
