#!/usr/bin/env bash
# Builds conda's package terp. conda sets PREFIX, SRC_DIR and CMAKE_ARGS.
set -eu
read -ra arguments <<<"${CMAKE_ARGS:-}"
cmake -S "$SRC_DIR" -B build -G Ninja "${arguments[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" \
    -DCMAKE_INSTALL_LIBDIR=lib -DTERP_INSTALL_PLUGIN_DIR=lib/hdf5/plugin \
    -DBUILD_TESTING=OFF -DTERP_CUDA=OFF -DTERP_SYSTEM_XXHASH=ON \
    -DTERP_JSON=ON -DTERP_PNG=ON
cmake --build build -j "${CPU_COUNT:-1}"
cmake --install build
# conda-forge's packages of HDF5 plugins have both folders.
mkdir -p "$PREFIX/lib/plugins"
for plugin in libh5zterp.so libh5vlterp.so; do
    ln -sf "../hdf5/plugin/$plugin" "$PREFIX/lib/plugins/$plugin"
done
