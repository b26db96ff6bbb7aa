#!/usr/bin/env bash
# Compiles the codec for other processors and runs it under qemu: streams, and
# what they decode to, are those of any other machine.
#   scripts/cross.sh [--every N] [PROCESSOR...]
# PROCESSOR: aarch64, s390x (big-endian), riscv64, ppc64le, i386; the first two
# where none is named. --every N: one of N cases. Exit status 77, "skipped",
# where a compiler or qemu is missing (Debian: gcc-s390x-linux-gnu, ...,
# qemu-user-static).
set -euo pipefail
cd "$(dirname "$0")/.."
every=1
if [ "${1:-}" = --every ]; then
    every=$2
    shift 2
fi
[ $# -gt 0 ] || set -- aarch64 s390x

mkdir -p build/cross
for processor in "$@"; do
    flags=
    target=$processor-linux-gnu
    case $processor in
    ppc64le) target=powerpc64le-linux-gnu ;;
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
        -DCMAKE_C_COMPILER="$target-gcc" -DCMAKE_C_FLAGS="$flags" \
        -DCMAKE_EXE_LINKER_FLAGS="-static" \
        -DCMAKE_C_STANDARD_LIBRARIES="$flags" -DTERP_HDF5=OFF -DTERP_CUDA=OFF \
        -DXXHASH_INCLUDE_DIR="$PWD/$build/include" \
        -DCMOCKA_INCLUDE_DIR="$PWD/$build/include" -DCMOCKA_LIBRARY=cmocka \
        >"$build.log"
    cmake --build "$build" -j "$(nproc)" --target stream_digest >>"$build.log"
    "$qemu" "$build/h5tests/stream_digest" --every "$every" \
        --expect h5tests/codec/stream_digest.txt
    echo "$processor: the same streams"
done
