#!/usr/bin/env bash
# Copies HDF5 files of random structure with terp repack and preview, and compares
# each copy object by object. Every day has other files.
#   scripts/structures.sh [FILES]   500 by default
# TEST_SEED: a seed in place of the day's. BUILD: a folder with tool and plugin, which
# are then not built. Files with a wrong copy stay in build/structures.
set -euo pipefail
cd "$(dirname "$0")/.."
nfiles=${1:-500}
if ! [[ $nfiles =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi

if [ -z "${BUILD:-}" ]; then
    # shellcheck source=scripts/setup.sh
    . scripts/setup.sh
    install_packages "${TERP_BUILD_PACKAGES[@]}" libcmocka-dev libhdf5-dev \
        python3 python3-h5py
    BUILD=build/release
    mkdir -p build
    {
        cmake --preset release
        cmake --build --preset release -j "$(nproc)" \
            --target terp h5zterp test_tool_files
    } >build/structures.log 2>&1 || {
        cat build/structures.log
        exit 1
    }
fi
BUILD=$(realpath "$BUILD")
mkdir -p build/structures
export HDF5_PLUGIN_PATH=$BUILD/plugin TERP_TOOL=$BUILD/tools/terp \
    TERP_TOOL_FILES=$BUILD/h5tests/test_tool_files
/usr/bin/python3 h5tests/tools/test_structures.py --seed "${TEST_SEED:-day}" \
    --files "$nfiles" --keep build/structures h5tests
