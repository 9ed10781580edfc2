#!/usr/bin/env bash
# Installs the library into a fresh folder, moves it (a package is unpacked elsewhere than it was made), builds
# examples/plan_lengths against it and runs that: outside_example.sh BUILD COMPILER
set -euo pipefail
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$1
COMPILER=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

fail() { echo "outside_example: $*" >&2; exit 1; }

cmake --install "$BUILD" --prefix "$WORK/made" --component development >"$WORK/install.log" || fail "$(cat "$WORK/install.log")"
mv "$WORK/made" "$WORK/moved"
if grep -rlE "$BUILD|$SOURCE|$WORK/made" "$WORK/moved" --include=*.cmake --include=*.h; then
  fail "the files above name a folder of the build"
fi

cp -r "$SOURCE/examples/plan_lengths" "$WORK/example"
cmake -S "$WORK/example" -B "$WORK/build" -G Ninja -DCMAKE_PREFIX_PATH="$WORK/moved" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_COMPILER="$COMPILER" >"$WORK/configure.log" 2>&1 || fail "$(cat "$WORK/configure.log")"
ninja -C "$WORK/build" -j 1 >"$WORK/build.log" || fail "$(cat "$WORK/build.log")"

printf '%s\n' 100000 30000 9000 8000 700 300 >"$WORK/lengths.txt"
output=$("$WORK/build/plan_lengths" "$WORK/lengths.txt" 32 8192)
echo "$output"
for strategy in static hdp-naive hdp; do
  grep -qE "^$strategy +makespan +[0-9.]+ (ms|s|us) +gap +[0-9.]+ %$" <<<"$output" || fail "no line for $strategy"
done
if "$WORK/build/plan_lengths" "$WORK/absent" 32 8192 2>"$WORK/error"; then fail "an absent file was accepted"; fi
grep -q "cannot open" "$WORK/error" || fail "another message: $(cat "$WORK/error")"
# A newer minor version must not be satisfied by this one.
sed -i 's/find_package(weft 0.1 REQUIRED)/find_package(weft 0.99 REQUIRED)/' "$WORK/example/CMakeLists.txt"
if cmake -S "$WORK/example" -B "$WORK/newer" -G Ninja -DCMAKE_PREFIX_PATH="$WORK/moved" \
  -DCMAKE_CXX_COMPILER="$COMPILER" >"$WORK/newer.log" 2>&1; then
  fail "version 0.99 was found"
fi
grep -q "0.99" "$WORK/newer.log" || fail "$(cat "$WORK/newer.log")"
