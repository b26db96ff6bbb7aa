#!/usr/bin/env bash
# Runs the codec for a long time with more processes and threads than CPUs, and looks
# for errors and growing memory.
#   scripts/load.sh [MINUTES]   60 by default
# Four processes of eight threads encode and decode chunks of random types, shapes,
# bounds and pipelines, and compare every stream with that of one thread. Two pairs
# of processes have the same cases, and their digests must be equal. From the sixth
# minute on, the memory in the last third must not exceed the memory in the first
# third by a quarter. Two more processes write and read HDF5 files, through the
# filter and with terp_h5_write. A row for each minute shows the work and the resident
# memory of all processes. The exit code is 0 without errors.
# TERP_ENGINE=cuda: batches and the filter's chunks must go to a device. LOAD_SEED is
# the seed of the first cases (1); others are derived from it. BUILD: a folder with
# the programs, which are then not built.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-60}
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
seed=${LOAD_SEED:-1}
nchunk_processes=4
nfile_processes=2
nthreads=8

if [ -z "${BUILD:-}" ]; then
    # shellcheck source=scripts/setup.sh
    . scripts/setup.sh
    install_packages "${TERP_BUILD_PACKAGES[@]}" libcmocka-dev libhdf5-dev
    BUILD=build/release
    {
        cmake --preset release
        cmake --build --preset release -j "$(nproc)" \
            --target load_chunks load_files h5zterp
    } >build/load.log 2>&1 || {
        cat build/load.log
        exit 1
    }
fi
BUILD=$(realpath "$BUILD")
export HDF5_PLUGIN_PATH=$BUILD/plugin TERP_NUM_THREADS=2
# Resident memory must be terp's own. By default glibc keeps up to 64 MiB of freed
# memory in each of 16 arenas on 2 CPUs, and takes about an hour to fill them.
export MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072
work=$(mktemp -d)
pids=()
end() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

printf '%s, %s, %s CPUs, commit %s\n' "$(date -u +%Y-%m-%dT%H:%MZ)" \
    "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
for ((i = 0; i < nchunk_processes; i++)); do
    "$BUILD/h5tests/load_chunks" --seconds $((60 * minutes)) \
        --threads $nthreads --seed $((seed + i / 2)) "$work/digests$i" \
        >"$work/chunks$i.csv" 2>"$work/chunks$i.err" &
    pids+=($!)
done
for ((i = 0; i < nfile_processes; i++)); do
    "$BUILD/h5tests/load_files" --seconds $((60 * minutes)) \
        --seed $((seed + i)) "$work/file$i.h5" \
        >"$work/files$i.csv" 2>"$work/files$i.err" &
    pids+=($!)
done

# Waits until all processes have a row for the minute, or one has ended.
await() {
    while [ "$(cat "$work"/*.csv | grep -c "^$1,")" -lt ${#pids[@]} ]; do
        kill -0 "${pids[@]}" 2>/dev/null || return 0
        sleep 1
    done
}
sum() { # FILES MINUTE COLUMN
    cat "$work/$1"*.csv | awk -F, -v minute="$2" -v column="$3" \
        '$1 == minute { sum += $column } END { printf "%.0f", sum }'
}
printf '%6s %9s %14s %9s %9s %9s\n' minute chunks values files MiB most
for ((minute = 1; minute <= minutes; minute++)); do
    await $minute
    printf '%6d %9s %14s %9s %9s %9s\n' $minute "$(sum chunks $minute 2)" \
        "$(sum '' $minute 3)" "$(sum files $minute 2)" "$(sum '' $minute 4)" \
        "$(sum '' $minute 5)"
    kill -0 "${pids[@]}" 2>/dev/null || break
done

failed=0
for pid in "${pids[@]}"; do
    # A failure of one process ends all.
    if ! wait "$pid"; then
        failed=1
        kill "${pids[@]}" 2>/dev/null || true
    fi
done
pids=()
cat "$work"/*.err
for log in "$work"/*.csv; do
    sed -n "s/^device,\(.*\),\(.*\)/$(basename "$log" .csv): \1 batches by a device, \2 by the CPU/p" "$log"
    sed -n "s/^memory,\(.*\),\(.*\)/$(basename "$log" .csv): \1 MiB in the first third, \2 in the last/p" "$log"
done
for ((i = 0; i < nchunk_processes; i += 2)); do
    if [ ! -s "$work/digests$i" ] || [ ! -s "$work/digests$((i + 1))" ]; then
        echo "no digests of processes $i and $((i + 1))"
        failed=1
        continue
    fi
    join "$work/digests$i" "$work/digests$((i + 1))" 2>/dev/null |
        awk '{ n++; other += $2 != $3 }
            END { printf "%d blocks of 256 cases in two processes, %d differ\n",
                      n, other; exit n == 0 || other > 0 }' || failed=1
done
if [ $failed -ne 0 ]; then
    echo "FAILED"
    exit 1
fi
if [ "$minutes" -lt 10 ]; then
    echo "no error, bytes are equal; a check of memory needs ten minutes"
else
    echo "no error, memory is flat, bytes are equal"
fi
