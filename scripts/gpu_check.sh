#!/usr/bin/env bash
# Checks and measures the CUDA engine on a machine with a GPU.
#
#   scripts/gpu_check.sh [STAGE...]   runs all stages, or the named ones:
#     build      builds the engine, its tests and benchmarks in build/gpu
#     bytes      compares both engines on the round-trip matrix, special values,
#                golden files, damaged streams and batches: same bytes, same
#                values, same errors
#     large      the same for 512^3 float32, 384^3 float64, 2^31 + 4095 values
#     sanitize   a part of it under compute-sanitizer's memcheck and racecheck
#     random     compares both engines on random chunks, with 1 and 8 threads
#     exhaustive all float32 values and 10^10 float64 values, with bounds of all
#                modes: each value keeps its bound
#     failures   no device, no memory, a reset or lost device...: the CPU must
#                replace the GPU
#     threads    8 threads with one context
#     measure    benchmarks of speed, of shapes, of the index's layouts and of
#                codebooks
#     profile    time, traffic and instructions of each kernel
#     h5         compares blocks of datasets in device memory with HDF5 and the
#                filter, and terp repack with CPU, GPU and both: same chunks, same
#                values, speed; skipped if prepare found no HDF5
#     mpi        compares processes that write one file, each on its GPU, with one
#                process on the CPU: same chunks, speed with one GPU and more, by
#                the filter and by the connector; messages. Skipped if prepare
#                found no MPI
#     load       scripts/load.sh on all GPUs at once; skipped if prepare found no
#                HDF5
#     fuzz       scripts/fuzz.sh with the target kernels on all GPUs at once, 256
#                streams at a time; skipped without build/fuzz-carry, which
#                scripts/fuzz.sh prepare makes
#     wheels     the Python package and its CUDA engine, installed by pip: arrays
#                of PyTorch and CuPy, and datasets read into them and written from
#                them; the connector in h5py, and the speed of h5py with and
#                without it. Skipped if prepare found no wheels
#   scripts/gpu_check.sh prepare      copies files that the GPU machine may lack to
#                build/gpu-deps: the headers of xxHash, the library cmocka, wheels
#                of everywhere.sh, and if installed HDF5 as a static library and
#                Open MPI with its programs, which are built here
#                (scripts/carry_mpi.sh; the connector needs its TERP_HDF5_MPI)
#   scripts/gpu_check.sh pack         builds here, and copies the programs to
#                build/gpu-bin. With build/gpu-deps and
#                TERP_GPU_BUILD=build/gpu-bin the other machine can run the stages
#                after build
#
# The report goes to standard output. With all stages, or if OUT is set, it also
# goes to gpu_check.txt in the folder OUT (bench/results), with the CSV files of the
# benchmarks.
#
# TERP_DEPS: the folder of `prepare` (build/gpu-deps)
# TERP_GPU_BUILD: the build folder (build/gpu)
# TERP_GPU_ARCH: the architecture to build for (such as "90-real"; by default the GPU's)
# TERP_FIELD: the field to measure (pres; bench/cuda_field.py has others)
# TERP_FIELD_EXTENT: its extent (512)
# TERP_BENCHMARKS: the benchmarks of measure ("speed shapes index books")
# TERP_SPEED_PARTS: the sections of speed ("device small host crossover")
# TERP_H5_FOLDER: the folder for files of h5 and mpi (/dev/shm)
# TERP_TEST_EVERY: bytes and sanitize send one call in this many to the device
#                  (bytes: every call, but one in 5 for damaged streams)
# TERP_TEST_ALL: if set, bytes runs all cases instead of the selection of ctest
# TERP_LOAD_MINUTES: minutes of load (2)
# TERP_FUZZ_MINUTES, TERP_FUZZ_PROCESSES: minutes of fuzz (2); processes per GPU (8)
# LOAD_SEED: seed of load for the first GPU (1)
# TERP_SEEDS: seeds of random ("20261122 20261123 20261124")
# Exit status: 0; 1: a stage failed; 3: there is no GPU, and a stage beyond build
# needs one.
set -uo pipefail
cd "$(dirname "$0")/.."

all_stages="build bytes large sanitize random exhaustive failures threads"
all_stages+=" measure profile h5 mpi load fuzz wheels"
build=$(realpath -m "${TERP_GPU_BUILD:-build/gpu}")
deps=$(realpath -m "${TERP_DEPS:-build/gpu-deps}")
extent=${TERP_FIELD_EXTENT:-512}
logs=$build/logs
results=${OUT:-bench/results}
PATH=$PATH:/usr/local/cuda/bin
export TERP_CUDA_LIBRARY=$build/lib/libterp_cuda.so
export LD_LIBRARY_PATH=$deps/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONUNBUFFERED=1

# Copies Debian's HDF5, and writes an h5cc that shows CMake its folder.
prepare_hdf5() {
    local name file
    for name in hdf5_serial sz aec z; do
        file=$(${CC:-cc} -print-file-name="lib$name.a")
        if [ ! -e "$file" ]; then
            echo "HDF5 is not copied: lib$name.a is missing (install" \
                "libhdf5-dev, libaec-dev and zlib1g-dev)"
            return
        fi
        cp -L "$file" "$deps/lib/lib${name%_serial}.a"
    done
    mkdir -p "$deps/bin" "$deps/include/hdf5"
    cp /usr/include/hdf5/serial/H5*.h /usr/include/hdf5/serial/hdf5.h \
        "$deps/include/hdf5/"
    cat >"$deps/bin/h5cc" <<'EOF'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
echo "cc -I$here/include/hdf5 -L$here/lib -lhdf5 -lsz -laec -lz -ldl -lm"
EOF
    chmod +x "$deps/bin/h5cc"
}

prepare() {
    local file
    mkdir -p "$deps/include" "$deps/lib"
    for file in xxhash.h xxh3.h cmocka.h cmocka_pbc.h; do
        if [ -e "/usr/include/$file" ]; then
            cp "/usr/include/$file" "$deps/include/"
        fi
    done
    file=$(${CC:-cc} -print-file-name=libcmocka.so)
    cp -L "$file" "$deps/lib/libcmocka.so.0"
    cp "$deps/lib/libcmocka.so.0" "$deps/lib/libcmocka.so"
    prepare_hdf5
    scripts/carry_mpi.sh "$deps/mpi"
    mkdir -p "$deps/wheels"
    if [ -d build/everywhere/wheels ]; then
        find build/everywhere/wheels -name '*-manylinux*_x86_64.whl' -exec \
            cp -t "$deps/wheels" {} +
    fi
    git describe --always --dirty >"$deps/version"
    echo "$deps: $(du -sh "$deps" | cut -f1)"
}

pack() {
    local packed=build/gpu-bin
    rm -rf "$packed"
    mkdir -p "$packed/lib" "$packed/bench" "$packed/h5tests" "$logs"
    stage_build
    cp "$build"/lib/libterp_cuda.so "$packed/lib/"
    find "$build/bench" -maxdepth 1 -name 'cuda_*' -type f -perm -u+x \
        -exec cp -t "$packed/bench" {} +
    find "$build/h5tests" -maxdepth 1 -name 'cuda_*' -type f -perm -u+x \
        -exec cp -t "$packed/h5tests" {} +
    strip "$packed"/*/*
    echo "$packed: $(du -sh "$packed" | cut -f1)"
}

# ---- running programs of a stage ----

# try NAME SECONDS COMMAND...: runs a command with its own log; if it fails, shows
# the log's end. Commands run one after the other: processes that share a GPU would
# alternate, in intervals that are long beside the time of a small chunk.
try() {
    local name=$1 limit=$2 begin=$SECONDS status
    shift 2
    timeout "$limit" "$@" >"$logs/$name.log" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
        echo "-- $name: exit status $status (124: limit of $limit s)"
        tail -n 25 "$logs/$name.log"
    else
        echo "-- $name: passed after $((SECONDS - begin)) s"
    fi
    return "$status"
}

# ---- stages ----

stage_build() {
    local generator=() arch=${TERP_GPU_ARCH:-}
    if command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    if [ -z "$arch" ]; then
        arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
            head -n 1 | tr -d .)-real
    fi
    if ! {
        cmake -S . -B "$build" "${generator[@]}" -DTERP_CUDA=ON \
            -DTERP_HDF5=OFF -DCMAKE_PREFIX_PATH="$deps" \
            -DCMAKE_CUDA_ARCHITECTURES="$arch" &&
            cmake --build "$build" -j "$(nproc)" --target terp_gpu_check
    } >"$logs/build.log" 2>&1; then
        grep -m 20 -iE 'error|failed' "$logs/build.log" ||
            tail -n 30 "$logs/build.log"
        return 1
    fi
}

# Prints the path of the CUDA runtime, with which a test allocates device memory.
find_cudart() {
    find -L "$(dirname "$(command -v nvcc)")/.." -name 'libcudart.so*' \
        2>/dev/null | head -n 1
}

# try_both NAME SECONDS EVERY PROGRAM [WRAPPER...]: runs a program with both engines,
# which sends one call in EVERY to the device.
try_both() {
    local name=$1 limit=$2 every=$3 program=$4 arguments=() wrapper
    shift 4
    wrapper=("$@")
    if [ "$program" = golden ]; then
        arguments=(h5tests/golden/*/)
    fi
    if [ "$program" = hostile ] || [ "$program" = types ]; then
        wrapper=(env TERP_TEST_NANS=any "$@")
    fi
    TERP_TEST_EVERY=${TERP_TEST_EVERY:-$every} try "$name" "$limit" "${wrapper[@]}" \
        "$build/h5tests/cuda_$program" "${arguments[@]}"
}

# Calls: roundtrip 190000, special_values 43000, hostile 570000, others a few
# thousand.
stage_bytes() {
    local program failed=0
    for program in domain environment threads golden bytes precision special_values \
        speed_tiles types valid_range; do
        try_both "bytes_$program" 100 1 "$program" || failed=1
    done
    try bytes_lossless 100 "$build/h5tests/cuda_lossless" || failed=1
    try bytes_memory 100 "$build/h5tests/cuda_memory" || failed=1
    try_both bytes_roundtrip 200 1 roundtrip || failed=1
    try_both bytes_hostile 200 5 hostile || failed=1
    return "$failed"
}

stage_large() {
    try large 400 "$build/h5tests/cuda_large"
}

# racecheck is much slower than memcheck: it gets a 20th of the calls.
stage_sanitize() {
    local tool wrapper times=1 failed=0
    for tool in memcheck racecheck; do
        wrapper=(compute-sanitizer --tool "$tool" --error-exitcode 9)
        try_both "${tool}_roundtrip" 100 $((1500 * times)) roundtrip \
            "${wrapper[@]}" || failed=1
        try_both "${tool}_special_values" 100 $((300 * times)) special_values \
            "${wrapper[@]}" || failed=1
        try_both "${tool}_hostile" 100 $((400 * times)) hostile \
            "${wrapper[@]}" || failed=1
        if [ "$tool" = memcheck ]; then
            try_both "${tool}_bytes" 100 1 bytes "${wrapper[@]}" || failed=1
        fi
        try "${tool}_large" 100 "${wrapper[@]}" \
            "$build/h5tests/cuda_large" 48 || failed=1
        times=20
    done
    return "$failed"
}

# Runs each seed of TERP_SEEDS for 40 s with one thread, and with eight.
stage_random() {
    local seed nthreads failed=0
    for seed in ${TERP_SEEDS:-20261122 20261123 20261124}; do
        for nthreads in 1 8; do
            try "random_${seed}_$nthreads" 100 "$build/h5tests/cuda_random" \
                "$seed" 1000000 "$nthreads" 40 || failed=1
            tail -n 1 "$logs/random_${seed}_$nthreads.log"
        done
    done
    return "$failed"
}

stage_exhaustive() {
    local status
    try exhaustive 600 "$build/h5tests/cuda_exhaustive"
    status=$?
    cat "$logs/exhaustive.log"
    return "$status"
}

stage_failures() {
    local status
    try failures 400 "$build/h5tests/cuda_failures"
    status=$?
    cat "$logs/failures.log"
    return "$status"
}

stage_threads() {
    try threads 120 "$build/h5tests/cuda_hammer" 8 20
}

field() {
    python3 bench/cuda_field.py "$build/fields" "$extent" "${TERP_FIELD:-pres}"
}

# benchmark NAME COMMAND...: writes the CSV to the results, and shows it.
benchmark() {
    local name=$1
    shift
    if timeout 500 "$@" >"$results/$name.csv" 2>"$logs/$name.log"; then
        if command -v column >/dev/null; then
            column -s, -t <"$results/$name.csv"
        else
            cat "$results/$name.csv"
        fi
    else
        cat "$results/$name.csv" "$logs/$name.log"
        return 1
    fi
}

stage_measure() {
    local path failed=0 name parts=()
    path=$(field) || return 1
    for name in ${TERP_BENCHMARKS:-speed shapes index books}; do
        if [ "$name" = shapes ]; then
            benchmark cuda_shapes python3 -B bench/cuda_shapes.py \
                "$build/bench/cuda_shapes" "$build/fields" || failed=1
            continue
        fi
        if [ "$name" = speed ]; then
            read -ra parts <<<"${TERP_SPEED_PARTS:-}"
        fi
        benchmark "cuda_$name" "$build/bench/cuda_$name" "$path" \
            "${parts[@]}" || failed=1
        parts=()
    done
    return "$failed"
}

stage_profile() {
    local path status
    path=$(field) || return 1
    timeout 300 python3 bench/cuda_profile.py "$build/bench/cuda_speed" \
        "$path" "ratio:$extent:1" "ratio:$((extent / 8)):1" \
        "huffman:$extent:1" "huffman:$((extent / 8)):1" \
        "huffman:$((extent / 8)):512" \
        2>&1 | tee "$results/cuda_profile.txt"
    status=${PIPESTATUS[0]}
    return "$status"
}

# build_h5 TARGET...: makes a separate build with HDF5; the engine is that of the
# first build. Returns 77 without HDF5.
build_h5() {
    local generator=()
    if [ ! -e "$deps/bin/h5cc" ]; then
        echo "skipped: no HDF5 in $deps"
        return 77
    fi
    if command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    try h5_configure 100 cmake -S . -B "$build/h5" "${generator[@]}" \
        -DTERP_CUDA=OFF -DCMAKE_PREFIX_PATH="$deps" || return 1
    try h5_build 300 cmake --build "$build/h5" -j "$(nproc)" --target "$@" ||
        return 1
}

stage_h5() {
    local path failed=0
    build_h5 h5zterp h5vlterp terp cuda_h5 test_h5_blocks || return
    export HDF5_PLUGIN_PATH=$build/h5/plugin
    export TEST_MEMORY=device
    try h5_blocks 100 "$build/h5/h5tests/test_h5_blocks" || failed=1
    try h5_memcheck 100 compute-sanitizer --error-exitcode 9 \
        "$build/h5/h5tests/test_h5_blocks" || failed=1
    path=$(field) || return 1
    benchmark cuda_h5 "$build/h5/bench/cuda_h5" "$path" $((extent / 8)) \
        "${TERP_H5_FOLDER:-/dev/shm}" || failed=1
    benchmark cuda_connector python3 bench/connector.py --fields "$path" \
        --plugin "$HDF5_PLUGIN_PATH" --reps 5 --cuda libcudart.so || failed=1
    benchmark cuda_repack python3 bench/cuda_repack.py "$build/h5/tools/terp" \
        "$path" 16 "${TERP_H5_FOLDER:-/dev/shm}" "$(nvidia-smi -L | wc -l)" ||
        failed=1
    return "$failed"
}

# Plugin and programs come from prepare, the engine from the build.
stage_mpi() {
    local mpi=$deps/mpi ndevices path numbers=(1 2 4) failed=0
    if [ ! -e "$mpi/bin/mpiexec" ]; then
        echo "skipped: no MPI in $deps"
        return 77
    fi
    ndevices=$(nvidia-smi -L | wc -l)
    export HDF5_PLUGIN_PATH=$mpi/plugin
    PATH=$mpi/bin:$PATH
    TEST_NDEVICES=$ndevices TEST_MPIEXEC=$mpi/bin/mpiexec \
        TEST_PARALLEL_WRITE=$mpi/bin/parallel_write \
        TEST_MPI_PATTERNS=$mpi/bin/mpi_patterns \
        TEST_MPI_MESSAGES=$mpi/bin/mpi_messages \
        try mpi_files 400 python3 h5tests/tools/test_mpi.py || failed=1
    grep 'written and read by' "$logs/mpi_files.log"
    if [ "$ndevices" -eq 1 ]; then
        echo "not tested: processes that share several GPUs; there is one GPU"
    elif [ "$ndevices" -gt 4 ]; then
        numbers+=("$ndevices")
    fi
    benchmark cuda_parallel_write python3 bench/parallel_write.py \
        "$mpi/bin/parallel_write" --extent "$extent" --chunk $((extent / 8)) \
        --folder "${TERP_H5_FOLDER:-/dev/shm}" --cudart "$TERP_TEST_CUDART" \
        --devices "$ndevices" --processes "${numbers[@]}" || failed=1
    cat "$logs/cuda_parallel_write.log"
    path=$(python3 bench/cuda_field.py "$build/fields" 256) || return 1
    benchmark cuda_mpi_messages bench/mpi_messages.sh \
        "$mpi/bin/mpi_messages" "$path" 4 cuda || failed=1
    return "$failed"
}

# on_each_gpu NAME FUNCTION: calls a function for all GPUs at once, with their
# numbers, and shows the outputs.
on_each_gpu() {
    local ndevices i failed=0 pids=()
    ndevices=$(nvidia-smi -L | wc -l)
    for ((i = 0; i < ndevices; i++)); do
        CUDA_VISIBLE_DEVICES=$i "$2" "$i" >"$logs/$1_$i.log" 2>&1 &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do
        wait "${pids[i]}" || failed=1
        echo "-- $1 of GPU $i"
        cat "$logs/$1_$i.log"
    done
    return "$failed"
}

# Fails if a device does not process its batches.
# shellcheck disable=SC2317 # on_each_gpu calls it
load_gpu() {
    TERP_ENGINE=cuda BUILD=$build/h5 LOAD_SEED=$((${LOAD_SEED:-1} + 100 * $1)) \
        scripts/load.sh "${TERP_LOAD_MINUTES:-2}"
}

stage_load() {
    build_h5 h5zterp load_chunks load_files || return
    on_each_gpu load load_gpu
}

carried=build/fuzz-carry
# shellcheck disable=SC2317 # on_each_gpu calls it
fuzz_gpu() {
    FUZZ_NSTREAMS=${FUZZ_NSTREAMS:-256} scripts/fuzz.sh run-only "$carried" \
        "$logs/fuzz_$1" $((60 * ${TERP_FUZZ_MINUTES:-2})) \
        "fuzz-fast:kernels:${TERP_FUZZ_PROCESSES:-8}"
}

stage_fuzz() {
    if [ ! -e "$carried/fuzz.tar.gz" ]; then
        echo "skipped: no $carried"
        return 77
    fi
    on_each_gpu fuzz fuzz_gpu
}

# Installs the wheels beside the machine's packages: h5py, numpy, PyTorch...
stage_wheels() {
    local failed=0 path plugin name
    if [ -z "$(find "$deps/wheels" -name 'h5z_terp_cuda-*')" ]; then
        echo "skipped: no wheels in $deps"
        return 77
    fi
    python3 -m pip install -q --no-index --no-deps --no-cache-dir --upgrade \
        --target "$build/site" "$deps"/wheels/*.whl || return 1
    # Use the wheel's engine, not the one that was built here.
    unset TERP_CUDA_LIBRARY
    export PYTHONPATH=$build/site
    for name in test_device test_codec test_datasets test_samples test_torch \
        test_zarr_device; do
        try "wheels_$name" 100 env TERP_ENGINE=cuda python3 -m pytest -q -rs \
            -p no:cacheprovider "h5tests/python/$name.py" || failed=1
        tail -n 3 "$logs/wheels_$name.log"
    done
    plugin=$(python3 -c 'import h5z_terp; print(h5z_terp.PLUGIN_DIR)')
    try wheels_connector 100 env HDF5_PLUGIN_PATH="$plugin" \
        HDF5_VOL_CONNECTOR=terp python3 h5tests/vol/test_connector.py || failed=1
    tail -n 3 "$logs/wheels_connector.log"
    path=$(field) || return 1
    benchmark cuda_wheels python3 bench/connector.py --fields "$path" \
        --plugin "$plugin" --reps 3 --cuda libcudart.so || failed=1
    return "$failed"
}

# ---- the run ----

describe_machine() {
    local version
    if [ -e .git ]; then
        version=$(git describe --always --dirty)
    else
        version=$(cat "$deps/version" 2>/dev/null || echo unknown)
    fi
    echo "terp $version, $(date -u '+%Y-%m-%d %H:%M UTC')"
    nvidia-smi --query-gpu=name,memory.total,driver_version \
        --format=csv,noheader 2>&1 |
        sed 's/^/GPU: /; s/,\([^,]*\)$/, driver\1/'
    echo "CUDA: $(nvcc --version | sed -n 's/.*release \([^,]*\),.*/\1/p')"
    echo "CPU: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(nproc) cores"
}

run_stage() {
    case $1 in
    build) stage_build ;;
    bytes) stage_bytes ;;
    large) stage_large ;;
    sanitize) stage_sanitize ;;
    random) stage_random ;;
    exhaustive) stage_exhaustive ;;
    failures) stage_failures ;;
    threads) stage_threads ;;
    measure) stage_measure ;;
    profile) stage_profile ;;
    h5) stage_h5 ;;
    mpi) stage_mpi ;;
    load) stage_load ;;
    fuzz) stage_fuzz ;;
    wheels) stage_wheels ;;
    esac
}

run_stages() {
    local stage begin status result failed=0 lines=()
    describe_machine
    for stage in "$@"; do
        printf '\n== %s\n' "$stage"
        begin=$SECONDS
        run_stage "$stage"
        status=$?
        case $status in
        0) result=passed ;;
        77) result=skipped ;;
        *) result=FAILED failed=1 ;;
        esac
        lines+=("$(printf '%-9s %-7s %4d s' "$stage" "$result" \
            $((SECONDS - begin)))")
        if [ "$result" = FAILED ]; then
            if [ "$stage" = build ]; then
                break
            fi
        fi
    done
    printf '\n== summary\n'
    printf '%s\n' "${lines[@]}"
    return "$failed"
}

case ${1:-} in
prepare | pack)
    set -e
    if [ "$1" = prepare ]; then prepare; else pack; fi
    exit
    ;;
esac
for stage in "$@"; do
    if [[ " $all_stages " != *" $stage "* ]]; then
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
    fi
done
if [ "$*" != build ] && ! nvidia-smi -L >/dev/null 2>&1; then
    echo "Nothing was checked: nvidia-smi -L finds no NVIDIA GPU." >&2
    exit 3
fi
if [ $# -eq 0 ]; then
    report=$results/gpu_check.txt
    # shellcheck disable=SC2086 # one word a stage
    set -- $all_stages
else
    report=${OUT:+$OUT/gpu_check.txt}
fi
mkdir -p "$logs" "$results"
if [ -z "${TERP_TEST_CUDART:-}" ]; then
    TERP_TEST_CUDART=$(find_cudart)
    export TERP_TEST_CUDART
fi
run_stages "$@" 2>&1 | tee "${report:-/dev/null}"
exit "${PIPESTATUS[0]}"
