#!/usr/bin/env bash
# The demo: builds a corpus from C++ headers, trains one small model under three strategies, compares them.
# Usage: examples/demo.sh BUILD_DIR [--section.key value ...]   (extra options go to every weft train)
set -euo pipefail
BUILD=$1
shift
WEFT=$BUILD/weft
OUT=out/demo
STRATEGIES=(static hdp-naive hdp)

say() { printf '\n== %s\n' "$*"; }

# Headers that the build itself installs: thousands of files from 20 bytes to megabytes, a true long tail.
INPUTS=()
for folder in /usr/include/c++/12 /usr/include/torch /usr/include/ATen /usr/include/c10; do
  [ -d "$folder" ] && INPUTS+=("$folder")
done
[ ${#INPUTS[@]} -gt 0 ] || { echo "demo: no C++ headers found under /usr/include" >&2; exit 1; }

rm -rf "$OUT"
mkdir -p "$OUT"
say "corpus: ${INPUTS[*]}"
"$WEFT" corpus build --out "$OUT/corpus" "${INPUTS[@]}"
"$WEFT" corpus stats "$OUT/corpus"

for strategy in "${STRATEGIES[@]}"; do
  say "training, strategy $strategy"
  "$WEFT" train --config configs/demo.toml --data.corpus "$OUT/corpus" --plan.strategy "$strategy" \
    --train.out "$OUT/$strategy" "$@"
done

say "the same data under three strategies"
python3 examples/compare_runs.py "${STRATEGIES[@]/#/$OUT/}"
