#!/usr/bin/env bash
# Builds the libFuzzer programs and runs each: tools/fuzz.sh JOBS [SECONDS] [TARGET]. The committed seeds and regression
# inputs come first. What the fuzzers learn is kept in build/fuzz/corpus; a finding ends with exit code 1, its input is
# build/fuzz/findings/TARGET-*. Move it to tests/fuzz/regressions/TARGET/ once it is mended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

JOBS=$1
SECONDS_EACH=${2:-60}
ONLY=${3:-}
[[ $SECONDS_EACH =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: expected a number of seconds, got '$SECONDS_EACH'" >&2; exit 2; }

# What one input may be and cost: the longest input in bytes, the largest single allocation and the peak of memory in
# MiB. Compressed inputs may grow: 2 KiB of zstd hold up to 64 MiB of text, and a frame may ask for a window of 2 GiB,
# of which only what is written becomes memory.
limits_of() {
  case $1 in
    documents) echo "-max_len=2048 -malloc_limit_mb=2200 -rss_limit_mb=1536" ;;
    *) echo "-max_len=8192 -malloc_limit_mb=64 -rss_limit_mb=512" ;;
  esac
}

cmake --preset fuzz >build/fuzz.configure.log 2>&1 || { cat build/fuzz.configure.log >&2; exit 1; }
cmake --build --preset fuzz -j "$JOBS"

export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
failed=0
found=0
mkdir -p build/fuzz/findings
for program in build/fuzz/fuzz/*_fuzz; do
  target=$(basename "$program" _fuzz)
  [ -z "$ONLY" ] || [ "$target" = "$ONLY" ] || continue
  found=1
  corpus=build/fuzz/corpus/$target
  inputs=("tests/fuzz/seeds/$target")
  [ -d "tests/fuzz/regressions/$target" ] && inputs+=("tests/fuzz/regressions/$target")
  mkdir -p "$corpus"
  # shellcheck disable=SC2046
  if "$program" "$corpus" "${inputs[@]}" $(limits_of "$target") -max_total_time="$SECONDS_EACH" -timeout=20 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" >"build/fuzz/$target.log" 2>&1; then
    verdict=clean
  else
    verdict="FAILED: see build/fuzz/$target.log"
    failed=1
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "build/fuzz/$target.log" | tail -1)
  peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "build/fuzz/$target.log")
  printf '%-14s %10s executions %6s edges %5s MiB peak  %s\n' "$target" "${executions:-0}" "${edges:-0}" "${peak:-0}" "$verdict"
done
[ "$found" = 1 ] || { echo "fuzz: no target '$ONLY'; there are: $(ls build/fuzz/fuzz | sed 's/_fuzz$//' | tr '\n' ' ')" >&2; exit 2; }
exit $failed
