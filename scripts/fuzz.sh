#!/usr/bin/env bash
# Fuzzes for a given time, and records the executions.
#   scripts/fuzz.sh [SECONDS [TARGET...]]  runs each target for SECONDS (60)
#   scripts/fuzz.sh prepare [FOLDER]       packs the programs for a machine without
#                                          a compiler: build/fuzz-carry
#   scripts/fuzz.sh run-only FOLDER OUT SECONDS BUILD:TARGET:PROCESSES[:RUNS]...
#                                          runs all of them at once from such a
#                                          folder; OUT gets fuzz.csv, logs, findings
#   scripts/fuzz.sh minimize [TARGET...]   replaces fuzz/corpus by the smallest
#                                          corpus that reaches as many edges: inputs
#                                          of at most MAX_LEN bytes, 400 KB a folder
#   scripts/fuzz.sh totals [FILE]          adds up bench/results/fuzz.csv
# A BUILD is `fuzz`, with ASan and UBSan, or `fuzz-fast`, without sanitizers, for
# many executions. BUILDS lists the builds of the first command: by default both,
# each for half of the time. Targets start from fuzz/corpus, the inputs of
# fuzz/make_corpus.c, and earlier findings in build/fuzz/found, and run as JOBS
# processes (default: the number of CPUs). The table gets a line for each target:
# date, commit, target, build, seconds, processes, executions, inputs in the corpus,
# and edges of the program that they reach (libFuzzer's `cov`). An input that crashes
# a target is in build/fuzz/found/TARGET-..., and the exit code is 1.
# The target `kernels` runs only if it is named, and needs a CUDA engine in
# TERP_CUDA_LIBRARY: libterp_cuda.so, or the emulated engine of the preset release,
# with which a core does some 100 executions a second. On a GPU FUZZ_NSTREAMS=256
# tries 256 streams at once; the table counts each stream.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(frame inspect decode reader cd roundtrip rules files)
folders=(stream cd roundtrip rules files)
jobs=${JOBS:-$(nproc)}
max_nbytes=400000
results=bench/results/fuzz.csv
header=date,commit,target,build,seconds,processes,executions,inputs,edges

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' scripts/fuzz.sh >&2
    exit 2
}

# The corpus of a target; several targets share one.
folder_of() {
    case $1 in
    frame | inspect | decode | reader | kernels) echo stream ;;
    *) echo "$1" ;;
    esac
}

max_len_of() {
    case $1 in
    rules) echo 256 ;; # longer texts reach nothing new
    cd) echo 192 ;;
    *) echo "${MAX_LEN:-1024}" ;;
    esac
}

build_targets() { # BUILD...
    local build clang_version
    # shellcheck source=scripts/setup.sh
    . scripts/setup.sh
    clang_version=$(clang -dumpversion 2>/dev/null || echo 14)
    install_packages "${TERP_BUILD_PACKAGES[@]}" clang libcmocka-dev libhdf5-dev \
        "libclang-rt-${clang_version%%.*}-dev"
    mkdir -p build/fuzz/found
    for build in "$@"; do
        {
            cmake --preset "$build"
            cmake --build --preset "$build" -j "$jobs" --target fuzzers fuzz_kernels
        } >"build/$build.log" 2>&1 || {
            cat "build/$build.log"
            exit 1
        }
    done
    mkdir -p build/fuzz-seeds
    rm -rf build/fuzz-seeds/*
    for folder in "${folders[@]}"; do
        mkdir -p "build/fuzz-seeds/$folder" "build/fuzz/found/$folder"
    done
    "build/$1/fuzz/make_corpus" build/fuzz-seeds rules files
}

# Runs one process of libFuzzer; libFuzzer's own forks would spend their time on
# merging. In the build with sanitizers comparisons guide the search too; the build
# without only checks whether an input reaches new edges.
run_process() { # BINARY TARGET SECONDS RUNS LOG ARTIFACTS FOLDER...
    local binary=$1 target=$2 seconds=$3 runs=$4 log=$5 artifacts=$6
    local options=(-max_total_time="$seconds" -runs="$runs" -timeout=10
        -max_len="$(max_len_of "$target")" -malloc_limit_mb=64
        -entropic=0 -print_final_stats=1 -reload=10 -artifact_prefix="$artifacts")
    shift 6
    # glibc keeps freed memory for the next execution; this makes `files` half as fast
    # again.
    local -x GLIBC_TUNABLES=glibc.malloc.tcache_max=600000:glibc.malloc.tcache_count=1000
    GLIBC_TUNABLES+=:glibc.malloc.mmap_threshold=100000000:glibc.malloc.top_pad=67108864
    # clang 14's sanitizers fail with the address randomization of some kernels.
    setarch "$(uname -m)" -R "$binary" "${options[@]}" "$@" >"$log" 2>&1
}

# Adds up logs with lines "stat::number_of_executed_units: N" and "#N ... cov: N ...
# corp: N/". `kernels`, which decodes many streams in an execution, also prints
# "stat::number_of_streams: N".
row_of() { # COMMIT TARGET BUILD SECONDS PROCESSES LOG...
    local commit=$1 target=$2 build=$3 seconds=$4 processes=$5
    shift 5
    awk -v row="$(date -u +%Y-%m-%d),$commit,$target,$build,$seconds,$processes" '
        /^stat::number_of_streams:/ { streams[FILENAME] = $2 }
        /^stat::number_of_executed_units:/ { last[FILENAME] = $2 }
        /^#[0-9]+/ {
            sub("#", "", $1)
            last[FILENAME] = $1
            for (i = 2; i < NF; i++) {
                if ($i == "cov:" && $(i + 1) + 0 > edges) edges = $(i + 1) + 0
                if ($i == "corp:" && $(i + 1) + 0 > inputs) inputs = $(i + 1) + 0
            }
        }
        END {
            # For a killed process the last line counts.
            for (file in last)
                executions += file in streams ? streams[file] : last[file]
            printf "%s,%d,%d,%d\n", row, executions, inputs, edges
        }' "$@"
}

add_row() { # FILE ROW
    [ -s "$1" ] || echo "$header" >"$1"
    echo "$2" >>"$1"
    echo "$2"
}

commit_now() {
    git rev-parse --short HEAD 2>/dev/null || echo unknown
}

fuzz_here() { # SECONDS TARGET...
    local seconds=$1 target build builds folder log failed=0 i
    shift
    read -ra builds <<<"${BUILDS:-fuzz fuzz-fast}"
    build_targets "${builds[@]}"
    seconds=$(((seconds + ${#builds[@]} - 1) / ${#builds[@]}))
    for target in "$@"; do
        folder=$(folder_of "$target")
        mkdir -p "fuzz/corpus/$folder"
        for build in "${builds[@]}"; do
            log=build/fuzz/$target-$build
            rm -f "$log".*.log
            for ((i = 0; i < jobs; i++)); do
                run_process "build/$build/fuzz/fuzz_$target" "$target" \
                    "$seconds" "${RUNS:--1}" "$log.$i.log" \
                    "build/fuzz/found/$target-" "build/fuzz/found/$folder" \
                    "fuzz/corpus/$folder" "build/fuzz-seeds/$folder" ||
                    touch "$log.failed" &
            done
            wait
            add_row $results "$(row_of "$(commit_now)" "$target" "$build" "$seconds" \
                "$jobs" "$log".*.log)"
            if [ -e "$log.failed" ]; then
                rm "$log.failed"
                tail -n 40 "$log".*.log
                failed=1
            fi
        done
    done
    return $failed
}

# Packs one file, which is smaller than many files. The programs need only glibc and
# libstdc++.
prepare() { # FOLDER
    local to build target folder from
    build_targets fuzz fuzz-fast
    to=$(mktemp -d)
    for build in fuzz fuzz-fast; do
        mkdir -p "$to/$build"
        for target in "${targets[@]}" kernels; do
            strip -o "$to/$build/fuzz_$target" "build/$build/fuzz/fuzz_$target"
        done
    done
    for folder in "${folders[@]}"; do
        mkdir -p "$to/corpus/$folder"
        # Two folders may contain the same input, whose name is its digest.
        for from in fuzz/corpus build/fuzz-seeds build/fuzz/found; do
            find "$from/$folder" -type f -size -5k -exec \
                cp -t "$to/corpus/$folder" {} +
        done
    done
    commit_now >"$to/commit"
    mkdir -p "$1"
    tar -C "$to" -czf "$1/fuzz.tar.gz" .
    rm -rf "$to"
    ls -lh "$1"
}

run_only() { # FOLDER OUT SECONDS BUILD:TARGET:PROCESSES[:RUNS]...
    local out=$2 seconds=$3 work build target processes runs folder log failed=0
    local i plan
    work=$(mktemp -d)
    mkdir -p "$work/logs" "$work/found" "$out"
    tar -C "$work" -xzf "$1/fuzz.tar.gz"
    shift 3
    for plan in "$@"; do
        IFS=: read -r build target processes runs <<<"$plan"
        folder=$(folder_of "$target")
        log=$work/logs/$target-$build
        # A folder for the findings of each plan.
        mkdir -p "$work/new/$build-$target"
        for ((i = 0; i < processes; i++)); do
            run_process "$work/$build/fuzz_$target" "$target" "$seconds" \
                "${runs:--1}" "$log.$i.log" "$work/found/$target-" \
                "$work/new/$build-$target" "$work/corpus/$folder" ||
                touch "$log.failed" &
        done
    done
    wait
    for plan in "$@"; do
        IFS=: read -r build target processes runs <<<"$plan"
        log=$work/logs/$target-$build
        add_row "$out/fuzz.csv" "$(row_of "$(cat "$work/commit")" "$target" "$build" \
            "$seconds" "$processes" "$log".*.log)"
        if [ -e "$log.failed" ]; then
            rm "$log.failed"
            echo "$plan failed:"
            grep -lE 'ERROR|SUMMARY' "$log".*.log | head -1 | xargs -r tail -n 30
            failed=1
        fi
    done
    tar -C "$work" -czf "$out/fuzz-logs.tar.gz" logs
    tar -C "$work" -czf "$out/fuzz-found.tar.gz" found
    # Findings, smallest first, up to the size that is copied back.
    (cd "$work/new" && find . -type f -printf '%s %p\n' | sort -n |
        awk '{ sum += $1 + 512; if (sum < 12e6) print $2 }' |
        tar -czf "$out/fuzz-new.tar.gz" -T -)
    rm -rf "$work"
    return $failed
}

minimize() { # TARGET...
    local folder target sum nbytes name sources
    build_targets fuzz-fast
    for folder in "${folders[@]}"; do
        rm -rf build/fuzz/minimal
        mkdir -p build/fuzz/minimal
        for target in "$@"; do
            [ "$(folder_of "$target")" = "$folder" ] || continue
            sources=("build/fuzz/found/$folder" "fuzz/corpus/$folder"
                "build/fuzz-seeds/$folder")
            build/fuzz-fast/fuzz/fuzz_"$target" -merge=1 -use_counters=0 \
                -max_len="$(max_len_of "$target")" build/fuzz/minimal \
                "${sources[@]}" >"build/fuzz/merge-$target.log" 2>&1
        done
        [ -n "$(ls build/fuzz/minimal)" ] || continue
        rm -rf "fuzz/corpus/$folder"
        mkdir -p "fuzz/corpus/$folder"
        # The smallest first, up to the limit for a folder in the repository.
        sum=0
        while read -r nbytes name; do
            sum=$((sum + nbytes))
            [ $sum -le $max_nbytes ] || break
            cp "build/fuzz/minimal/$name" "fuzz/corpus/$folder/"
        done < <(find build/fuzz/minimal -type f -printf '%s %f\n' | sort -n)
        echo "$folder: $(find "fuzz/corpus/$folder" -type f | wc -l) inputs"
    done
}

totals() { # FILE
    awk -F, 'NR > 1 && NF == 9 {
            all[$3] += $7
            if ($4 == "fuzz") sanitized[$3] += $7
            if ($8 + 0 > inputs[$3]) inputs[$3] = $8
            if ($9 + 0 > edges[$3]) edges[$3] = $9
        }
        END {
            printf "%-10s %14s %14s %8s %8s\n", "target", "executions",
                "with ASan", "inputs", "edges"
            for (t in all) printf "%-10s %14d %14d %8d %8d\n", t, all[t],
                sanitized[t], inputs[t], edges[t] | "sort"
        }' "$1"
}

case ${1:-60} in
prepare)
    prepare "${2:-build/fuzz-carry}"
    ;;
run-only)
    [ $# -ge 5 ] || usage
    run_only "${@:2}"
    ;;
minimize)
    shift
    [ $# -gt 0 ] || set -- "${targets[@]}"
    minimize "$@"
    ;;
totals)
    totals "${2:-$results}"
    ;;
*)
    [[ ${1:-60} =~ ^[1-9][0-9]*$ ]] || usage
    seconds=${1:-60}
    [ $# -eq 0 ] || shift
    [ $# -gt 0 ] || set -- "${targets[@]}"
    fuzz_here "$seconds" "$@"
    ;;
esac
