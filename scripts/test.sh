#!/usr/bin/env bash
# Sets up a Debian or Ubuntu machine, builds terp and tests it.
#   scripts/test.sh        runs the tests of the release build, compares its streams
#                          with those of another optimization level, compiler and
#                          instruction set, and with nvcc builds the CUDA engine for
#                          one device
#   scripts/test.sh --all  runs all tests that must pass before a change lands, also
#                          static analysis and hosts from PyPI (label ci), sanitizers
#                          in clang's builds, a quarter of whose streams replaces the
#                          other builds, and fuzzing
# The first failure ends the run; the last lines are ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."
all=
if [ "${1:-}" = --all ]; then
    all=yes
elif [ $# -gt 0 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" ccache clang clang-format ninja-build \
    shellcheck g++ libboost-context-dev libcmocka-dev libhdf5-dev \
    libjansson-dev libcairo2-dev gfortran libhdf5-openmpi-dev openmpi-bin \
    hdf5-tools netcdf-bin pkg-config python3 python3-numpy python3-h5py \
    python3-venv
if [ "$all" ]; then
    # Debian has clang's sanitizers and libFuzzer in other packages than clang.
    clang_version=$(clang -dumpversion)
    install_packages abigail-tools clang-tidy gcc-aarch64-linux-gnu \
        gcc-s390x-linux-gnu libc6-dev-arm64-cross libc6-dev-s390x-cross \
        lmod lua5.4 qemu-user-static \
        "libclang-rt-${clang_version%%.*}-dev"
fi

jobs=$(nproc)
# Each test with very many cases tries a third of its cases.
export TERP_TEST_FEWER=${TERP_TEST_FEWER:-3}
if command -v ccache >/dev/null; then
    # The builds compile many files alike.
    export CMAKE_C_COMPILER_LAUNCHER=ccache \
        CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=Ninja # for new folders
fi

# Tests make a dozen virtual environments. uv makes them faster than pip does.
if [ "$all" ] && [ -z "${TERP_TEST_UV:-}" ]; then
    if [ -x build/uv/bin/uv ] || { python3 -m venv build/uv &&
        build/uv/bin/pip install -q --disable-pip-version-check uv; } \
        >/dev/null 2>&1; then
        export TERP_TEST_UV=$PWD/build/uv/bin/uv
    fi
fi

# say TEXT...: a step, and the seconds since the script began.
say() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# logged FILE COMMAND...: shows the output of a command only if it fails.
logged() {
    "${@:2}" >"$1" 2>&1 || {
        cat "$1"
        exit 1
    }
}

# build PRESET TARGETS [CMAKE_ARGUMENT...]: configures build/PRESET and builds the
# targets, "all" or names separated by spaces.
build() {
    local targets
    read -ra targets <<<"$2"
    say "build: $*"
    logged "build/$1.log" cmake --preset "$1" "${@:3}"
    logged "build/$1.log" cmake --build --preset "$1" -j "$jobs" \
        --target "${targets[@]}"
}

mkdir -p build
other_instructions=
if grep -qw fma /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo; then
    other_instructions=yes
fi
folders=
if [ ! "$all" ]; then
    for preset in dev clang ${other_instructions:+fma}; do
        build "$preset" stream_digest
        folders+="$PWD/build/$preset;"
    done
fi
build release all -DTERP_COMPARE_BUILDS="$folders"

if command -v nvcc >/dev/null; then
    # The engine never runs here, and need not be fast.
    optimize=
    if [[ $(nvcc --help) == *Ofast-compile* ]]; then
        optimize=-Ofc=max
    fi
    build cuda \
        "terp_cuda terp terp_shared terp_h5z_linked test_engine test_filter_engine" \
        -DCMAKE_CUDA_ARCHITECTURES=90-real "-DCMAKE_CUDA_FLAGS=$optimize"
    say "tests of the CUDA engine without a device"
    ctest --preset cuda -j "$jobs"
else
    say "the CUDA engine is not compiled: nvcc is missing"
fi

if [ "$all" ]; then
    build asan all "-DCMAKE_C_FLAGS=${other_instructions:+-mfma -mavx2}"
    say "tests with AddressSanitizer and UndefinedBehaviorSanitizer"
    ctest --preset asan -j "$jobs"
    build tsan thread_tests
    say "tests with ThreadSanitizer"
    ctest --preset tsan -j "$jobs"
    build fuzz fuzzers
    say "fuzzing"
    ctest --preset fuzz -j "$jobs"
    python3 -B bench/common.py ||
        say "the test of the benchmarks is skipped: PyPI cannot be reached"
    say "all tests of the release build"
    ctest --preset release -j "$jobs"
else
    say "tests of the release build"
    ctest --preset release -j "$jobs" --label-exclude '^ci$'
fi
