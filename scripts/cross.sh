#!/usr/bin/env bash
# Compiles the codec for other processors and runs it under qemu. Streams and decoded
# values must equal those of other machines.
#   scripts/cross.sh [--every N] [--tests] [--plugin] [--drawn] [PROCESSOR...]
# PROCESSOR: aarch64, s390x (big-endian), riscv64, ppc64le, i386 or x86_64; by
# default the first two, with --drawn one of these, by the day. --every N runs one of
# N cases. --tests also runs the codec's tests, some minutes of a core for each
# processor. --plugin also runs the plugin in
# Debian's libhdf5 for the processor (riscv64 has none in Debian 12); each processor
# reads the files of all processors. Exit status 77, "skipped": a compiler or qemu is
# missing (Debian: gcc-s390x-linux-gnu, ..., qemu-user-static). Processors that this
# machine can run need no qemu.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
every=1
tests=
plugin=
drawn=
written=()
readers=()
while [[ "${1:-}" = --* ]]; do
    case $1 in
    --every)
        every=$2
        shift
        ;;
    --tests) tests=yes ;;
    --plugin) plugin=yes ;;
    --drawn) drawn=$(($(date +%s) / 86400 % 2)) ;;
    esac
    shift
done
usual=(aarch64 s390x)
if [ $# -eq 0 ]; then
    set -- "${usual[@]}"
    [ -z "$drawn" ] || set -- "${usual[drawn]}"
fi

mkdir -p build/cross
if [ -n "$tests" ] && [ ! -d build/cross/cmocka ]; then
    fetch_sources "$PWD/build/cross" cmocka >build/cross/apt.log 2>&1
fi

# Makes the library cmocka for the tests.
make_cmocka() { # COMPILER FOLDER
    cp build/cross/cmocka/include/cmocka*.h "$2/include"
    "$1" -O2 -DHAVE_SIGNAL_H -DHAVE_STRINGS_H -DHAVE_INTTYPES_H \
        -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL -I"$2/include" -r \
        -o "$2/cmocka.o" build/cross/cmocka/src/cmocka.c
}

# Unpacks Debian's libhdf5 for the processor, and its dependencies, in FOLDER/root.
fetch_hdf5() { # PROCESSOR FOLDER
    local package apart_processors=$1
    case $1 in
    aarch64) apart_processors=arm64 ;;
    ppc64le) apart_processors=ppc64el ;;
    x86_64) apart_processors=amd64 ;;
    esac
    apt_apart "$2" update
    apt_apart "$2" -y --no-install-recommends --download-only install libhdf5-103-1
    apt_apart "$2" download libhdf5-dev
    for package in "$2"/apt/archives/*.deb "$2"/apt/libhdf5-dev_*.deb; do
        dpkg-deb -x "$package" "$2/root"
    done
}

# Builds the plugin and a host program, and lets the host write a file.
run_plugin() { # COMPILER FOLDER RUNNER...
    local root=$PWD/$2/root library
    library=$(find "$root/usr/lib" -name libhdf5_serial.so.103)
    mkdir -p "$2/plugin"
    "$1" -O3 -std=c11 -ffp-contract=off -fPIC -shared -I. -Icodec/api \
        -isystem "$root/usr/include/hdf5/serial" -o "$2/plugin/libh5zterp.so" \
        filter/plugin/{call,coding,dataset,errors,h5z_terp,history,host}.c \
        filter/plugin/{marks,nczarr,opened,overwrite,pipeline,prepared,program}.c \
        filter/plugin/zarr_json.c filter/{container,members,types}.c \
        "$2/codec/libterp_codec.a" "$2/codebooks/libterp_codebooks.a" -lm \
        -lpthread -ldl -Wl,--version-script=filter/plugin/plugin.map
    "$1" -O2 -I. -isystem "$root/usr/include/hdf5/serial" -o "$2/host_file" \
        h5tests/filter/host_file.c "$library" -Wl,--allow-shlib-undefined -lm \
        -lpthread
    run_host "$2" "${@:3}" write "$2/host_file.h5"
}

# Runs the host with the processor's own loader and libraries.
run_host() { # FOLDER RUNNER... ACTION FILE
    local libraries=("$1"/root/{,usr/}lib/*-linux-gnu)
    HDF5_PLUGIN_PATH=$PWD/$1/plugin "${@:2:$#-3}" \
        "$(find "$1"/root/lib*/ -name 'ld*.so.[0-9]' | head -n 1)" \
        --library-path "$(IFS=:; echo "${libraries[*]}")" "$1/host_file" "${@: -2}"
}

for processor in "$@"; do
    flags=
    target=$processor-linux-gnu
    qemu=qemu-$processor-static
    case $processor in
    ppc64le)
        # qemu 7 converts vectors of floats with a NaN to wrong integers.
        target=powerpc64le-linux-gnu
        flags=-fno-tree-vectorize
        ;;
    riscv64) flags=-latomic ;;
    i386)
        target=i686-linux-gnu
        flags="-msse2 -mfpmath=sse"
        ;;
    esac
    case $(uname -m)/$processor in x86_64/i386 | x86_64/x86_64) qemu="env" ;; esac
    if ! command -v "$target-gcc" >/dev/null || ! command -v "$qemu" >/dev/null; then
        echo "skipped: $target-gcc or $qemu is missing"
        exit 77
    fi
    # Not linked statically: the C library would call the tests' malloc, and cannot
    # open folders then.
    link=
    folder=/usr/$target/lib
    if [ -d "$folder" ]; then
        link=$(find "$folder" -name 'ld*.so.[0-9]' | head -n 1)
        link=-Wl,--dynamic-linker,$link,-rpath,$folder
    fi
    build=build/cross/$processor
    mkdir -p "$build/include"
    # A folder without other headers of this machine.
    cp /usr/include/xxh*.h "$build/include"
    cmake -S . -B "$build" -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR="$processor" \
        -DCMAKE_C_COMPILER="$target-gcc" -DCMAKE_C_FLAGS="$flags -DTERP_FEWER_CASES=10u" \
        -DCMAKE_EXE_LINKER_FLAGS="$link" \
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
    # The second decoder, compiled like a user does.
    "$target-gcc" -std=c99 -O2 -static -DTERP_READER_MAIN \
        -o "$build/terp_decode" decoder/terp_decode.c -lm
    cc -std=c99 -O2 -DTERP_READER_MAIN \
        -o "$build/terp_decode_here" decoder/terp_decode.c -lm
    n=0
    for stream in h5tests/golden/*/*.terp; do
        n=$((n + 1))
        [ $((n % every)) = 0 ] || continue
        "$qemu" "$build/terp_decode" "$stream" "$build/there.values"
        "$build/terp_decode_here" "$stream" "$build/here.values"
        cmp "$build/there.values" "$build/here.values"
    done
    echo "$processor: the same values from the second decoder"
    if [ -n "$tests" ]; then
        make_cmocka "$target-gcc" "$build" >>"$build.log"
        cmake --build "$build" -j "$(nproc)" --target codec_tests >>"$build.log"
        ctest --test-dir "$build" -L codec --output-on-failure
        echo "$processor: the codec's tests pass"
    fi
    if [ -n "$plugin" ]; then
        [ -d "$build/root" ] || fetch_hdf5 "$processor" "$build" >>"$build.log" 2>&1
        run_plugin "$target-gcc" "$build" "$qemu"
        written+=("$build/host_file.h5")
        readers+=("$build $qemu")
    fi
done
for reader in "${readers[@]}"; do
    read -r build qemu <<<"$reader"
    for file in "${written[@]}"; do
        run_host "$build" "$qemu" read "$file"
    done
    echo "${build##*/}: the plugin reads the files of all processors"
done
