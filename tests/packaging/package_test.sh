#!/usr/bin/env bash
# Makes the Debian packages and the archive of a build, unpacks each into a folder of its own and uses the programs
# there: package_test.sh BUILD OUT [--install]. --install (root) also puts the packages into the system with dpkg, runs
# them from there and takes them away again.
set -euo pipefail
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "$1" && pwd)
mkdir -p "$2"
OUT=$(cd "$2" && pwd)
MODE=${3:-}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

fail() { echo "package_test: $*" >&2; exit 1; }

try_programs() {  # FOLDER of bin
  "$1/weft" --version | grep -qE '^weft [0-9.]+ \(build [0-9a-f]{12}\)$' || fail "weft --version"
  printf '%s\n' 100000 30000 9000 700 >"$WORK/lengths.txt"
  "$1/weft" plan --lengths "$WORK/lengths.txt" --ranks 32 --capacity 8K --strategy all | grep -q '^hdp ' || fail "weft plan"
  if [ -x "$1/weft-engine" ]; then
    "$1/weft" train --help | grep -q optimizer.lr || fail "weft does not find weft-engine beside itself"
  fi
}

rm -f "$OUT"/*.deb "$OUT"/*.tar.gz
(cd "$OUT" && cpack --config "$BUILD/CPackConfig.cmake" -B "$OUT" >"$WORK/cpack.log" 2>&1) || fail "$(cat "$WORK/cpack.log")"
rm -rf "$OUT/_CPack_Packages"
program=$(echo "$OUT"/weft_*.deb)
library=$(echo "$OUT"/libweft-dev_*.deb)
[ -f "$program" ] && [ -f "$library" ] || fail "no packages in $OUT: $(ls "$OUT")"

for field in Package Version Depends Description Maintainer Section; do
  [ -n "$(dpkg-deb -f "$program" $field)" ] || fail "$program has no $field"
done
dpkg-deb -f "$program" Depends | grep -q 'libfmt9' || fail "Depends lacks what the program links: $(dpkg-deb -f "$program" Depends)"
dpkg-deb -x "$program" "$WORK/root"
try_programs "$WORK/root/usr/bin"
for file in share/man/man1/weft.1.gz share/doc/weft/copyright share/doc/weft/NOTICE share/weft/configs/demo.toml; do
  [ -s "$WORK/root/usr/$file" ] || fail "$program lacks $file"
done
if readelf -S "$WORK/root/usr/bin/weft" | grep -q '\.symtab'; then fail "weft is not stripped"; fi

dpkg-deb -x "$library" "$WORK/libroot"
[ -s "$WORK/libroot/usr/include/weft/plan/planner.h" ] || fail "$library lacks its headers"
find "$WORK/libroot" -name weftConfig.cmake | grep -q . || fail "$library lacks weftConfig.cmake"

archive=$(ls "$OUT"/*.tar.gz | head -1)
mkdir "$WORK/archive"
tar -xzf "$archive" -C "$WORK/archive" --strip-components=1
try_programs "$(dirname "$(find "$WORK/archive" -name weft -type f | head -1)")"

if [ "$MODE" = --install ]; then
  ! dpkg-query -W weft 2>/dev/null | grep -q . || fail "a package named weft is installed already"
  dpkg -i "$program" >/dev/null
  trap 'dpkg -r weft >/dev/null; rm -rf "$WORK"' EXIT
  try_programs /usr/bin
fi
ls -l "$OUT"/*.deb "$OUT"/*.tar.gz | awk '{print $5, $NF}'
