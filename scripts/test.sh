#!/usr/bin/env bash
# Sets up a Debian or Ubuntu machine, builds terp and runs all of its tests.
# The first failure ends the run; the last lines are ctest's own summary.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" clang clang-format clang-tidy \
    libomp-dev cppcheck shellcheck g++ libboost-context-dev libcmocka-dev libhdf5-dev \
    libjansson-dev libcairo2-dev \
    gfortran libhdf5-openmpi-dev openmpi-bin \
    hdf5-tools netcdf-bin pkg-config python3 python3-numpy python3-h5py \
    python3-venv

# Debian ships clang's sanitizers and libFuzzer apart from clang.
clang_version=$(clang -dumpversion)
install_packages "libclang-rt-${clang_version%%.*}-dev"

jobs=$(nproc)

say() {
    printf '\n== %s\n' "$*"
}

# logged FILE COMMAND...: shows what a command printed only if it fails.
logged() {
    "${@:2}" >"$1" 2>&1 || {
        cat "$1"
        exit 1
    }
}

# build PRESET [CMAKE_ARGUMENT...]: configures and builds build/PRESET.
build() {
    say "build: $*"
    logged "build/$1.log" cmake --preset "$1" "${@:2}"
    logged "build/$1.log" cmake --build --preset "$1" -j "$jobs"
}

mkdir -p build
# Another optimization level, compiler and instruction set: their streams are
# compared with those of the release build by its tests.
compare=(dev clang)
if grep -qw fma /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo; then
    compare+=(fma)
fi
for preset in "${compare[@]}" asan tsan fuzz; do
    build "$preset"
done
build release \
    -DTERP_COMPARE_BUILDS="$(printf "$PWD/build/%s;" "${compare[@]}")"

if command -v nvcc >/dev/null; then
    say "build: the CUDA engine, for every device"
    logged build/cuda.log cmake --preset cuda
    logged build/cuda.log cmake --build --preset cuda -j "$jobs" --target \
        terp_cuda terp test_engine test_filter_engine
    say "tests of the CUDA engine without a device"
    ctest --preset cuda -j "$jobs"
else
    say "the CUDA engine is not compiled: no nvcc here"
fi

say "tests with AddressSanitizer and UndefinedBehaviorSanitizer"
ctest --preset asan -j "$jobs"
say "tests with ThreadSanitizer"
ctest --preset tsan -j "$jobs"
say "fuzzing"
ctest --preset fuzz -j "$jobs"
say "all tests of the release build"
ctest --preset release -j "$jobs"
