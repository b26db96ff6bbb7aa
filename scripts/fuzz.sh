#!/usr/bin/env bash
# Fuzzes every target for long, and writes down what was done.
#   scripts/fuzz.sh [SECONDS]   of each target, 60 where it is not given
# Each target starts with fuzz/corpus and the inputs that fuzz/make_corpus.c makes,
# runs as JOBS processes (all CPUs), and what it finds goes to
# build/fuzz/found/TARGET. bench/results/fuzz.csv gets a line for each: date, commit,
# target, seconds, executions, inputs in the corpus and edges of the program that
# they reach (libFuzzer's `cov`). A crash ends all with exit code 1; its input is
# in build/fuzz/found. With MINIMIZE=1 the smallest corpus that reaches as much
# replaces fuzz/corpus/TARGET: inputs of at most 4096 bytes, 400 KB a target.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
jobs=${JOBS:-$(nproc)}
max_nbytes=400000

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
clang_version=$(clang -dumpversion 2>/dev/null || echo 14)
install_packages "${TERP_BUILD_PACKAGES[@]}" clang libcmocka-dev libhdf5-dev \
    "libclang-rt-${clang_version%%.*}-dev"
mkdir -p build/fuzz/found
{
    cmake --preset fuzz
    cmake --build --preset fuzz -j "$jobs" --target fuzzers
} >build/fuzz.log 2>&1 || {
    cat build/fuzz.log
    exit 1
}
build/fuzz/fuzz/make_corpus build/fuzz/fuzz/corpus rules

results=bench/results/fuzz.csv
[ -s $results ] || echo "date,commit,target,seconds,processes,executions,inputs,edges" >$results
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
printf '%-10s %12s %8s %8s\n' target executions inputs edges
for target in cd decode reader roundtrip rules; do
    binary=build/fuzz/fuzz/fuzz_$target
    found=build/fuzz/found/$target
    mkdir -p "$found" "fuzz/corpus/$target"
    max_len=4096
    if [ $target = rules ]; then
        max_len=256
    fi
    folders=("$found" "fuzz/corpus/$target" "build/fuzz/fuzz/corpus/$target")
    if [ $target = reader ]; then
        folders+=(fuzz/corpus/decode build/fuzz/fuzz/corpus/decode)
    fi
    log=build/fuzz/$target.log
    if ! "$binary" -fork="$jobs" -max_total_time="$seconds" -max_len=$max_len \
        -timeout=10 -malloc_limit_mb=64 -artifact_prefix="$found/../$target-" \
        "${folders[@]}" >"$log" 2>&1; then
        tail -40 "$log"
        exit 1
    fi
    # "#EXECUTIONS: cov: EDGES ft: ... corp: INPUTS ..."
    line=$(grep -E '^#[0-9]+: cov:' "$log" | tail -1)
    executions=$(sed -E 's/^#([0-9]+):.*/\1/' <<<"$line")
    edges=$(sed -E 's/.*cov: ([0-9]+) .*/\1/' <<<"$line")
    inputs=$(sed -E 's/.*corp: ([0-9]+) .*/\1/' <<<"$line")
    printf '%-10s %12s %8s %8s\n' $target "$executions" "$inputs" "$edges"
    echo "$(date -u +%Y-%m-%d),$commit,$target,$seconds,$jobs,$executions,$inputs,$edges" \
        >>$results
    if [ "${MINIMIZE:-}" = 1 ]; then
        rm -rf build/fuzz/minimal
        mkdir build/fuzz/minimal
        "$binary" -merge=1 -max_len=$max_len build/fuzz/minimal "${folders[@]}" \
            >>"$log" 2>&1
        rm -rf "fuzz/corpus/$target"
        mkdir -p "fuzz/corpus/$target"
        # The smallest first, until the target's part of the repository is full.
        sum=0
        while read -r nbytes name; do
            sum=$((sum + nbytes))
            [ $sum -le $max_nbytes ] || break
            cp "build/fuzz/minimal/$name" "fuzz/corpus/$target/"
        done < <(find build/fuzz/minimal -type f -printf '%s %f\n' | sort -n)
    fi
done
