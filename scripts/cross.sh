#!/usr/bin/env bash
# Compiles the codec for other processors and runs it under qemu: streams, and
# what they decode to, are those of any other machine.
#   scripts/cross.sh [--every N] [--tests] [PROCESSOR...]
# PROCESSOR: aarch64, s390x (big-endian), riscv64, ppc64le, i386; the first two
# where none is named. --every N: one of N cases. --tests: the codec's tests,
# too, some minutes of a core for each processor. Exit status 77, "skipped",
# where a compiler or qemu is missing (Debian: gcc-s390x-linux-gnu, ...,
# qemu-user-static).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
every=1
tests=
while [[ "${1:-}" = --* ]]; do
    case $1 in
    --every)
        every=$2
        shift
        ;;
    --tests) tests=yes ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- aarch64 s390x

mkdir -p build/cross
if [ -n "$tests" ] && [ ! -d build/cross/cmocka ]; then
    fetch_sources "$PWD/build/cross" cmocka >build/cross/apt.log 2>&1
fi

# What the tests are linked with.
make_cmocka() { # COMPILER FOLDER
    cp build/cross/cmocka/include/cmocka*.h "$2/include"
    "$1" -O2 -DHAVE_SIGNAL_H -DHAVE_STRINGS_H -DHAVE_INTTYPES_H \
        -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL -I"$2/include" -r \
        -o "$2/cmocka.o" build/cross/cmocka/src/cmocka.c
}

for processor in "$@"; do
    flags=
    target=$processor-linux-gnu
    case $processor in
    ppc64le)
        # qemu 7 converts a vector of floats to integers wrongly where one of
        # them is no number.
        target=powerpc64le-linux-gnu
        flags=-fno-tree-vectorize
        ;;
    riscv64) flags=-latomic ;;
    i386)
        target=i686-linux-gnu
        flags="-msse2 -mfpmath=sse"
        ;;
    esac
    qemu=qemu-$processor-static
    if ! command -v "$target-gcc" "$qemu" >/dev/null; then
        echo "skipped: no $target-gcc, or no $qemu"
        exit 77
    fi
    build=build/cross/$processor
    mkdir -p "$build/include"
    # Beside no other header of this machine.
    cp /usr/include/xxh*.h "$build/include"
    cmake -S . -B "$build" -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR="$processor" \
        -DCMAKE_C_COMPILER="$target-gcc" -DCMAKE_C_FLAGS="$flags -DTERP_FEWER_CASES=10u" \
        -DCMAKE_EXE_LINKER_FLAGS="-static" \
        -DCMAKE_C_STANDARD_LIBRARIES="$flags" -DTERP_HDF5=OFF -DTERP_CUDA=OFF \
        -DXXHASH_INCLUDE_DIR="$PWD/$build/include" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="$(command -v "$qemu")" \
        -DCMOCKA_INCLUDE_DIR="$PWD/$build/include" \
        -DCMOCKA_LIBRARY="$PWD/$build/cmocka.o" \
        >"$build.log"
    cmake --build "$build" -j "$(nproc)" --target stream_digest >>"$build.log"
    "$qemu" "$build/h5tests/stream_digest" --every "$every" \
        --expect h5tests/codec/stream_digest.txt
    echo "$processor: the same streams"
    if [ -n "$tests" ]; then
        make_cmocka "$target-gcc" "$build" >>"$build.log"
        cmake --build "$build" -j "$(nproc)" --target codec_tests >>"$build.log"
        ctest --test-dir "$build" -L codec --output-on-failure
        echo "$processor: the codec's tests pass"
    fi
done
