#!/usr/bin/env bash
# Copies the installed Open MPI and terp's MPI programs to a folder, for a machine
# without MPI.
#   scripts/carry_mpi.sh FOLDER
# FOLDER/bin gets mpiexec, parallel_write, mpi_patterns, mpi_write and
# mpi_messages, FOLDER/plugin the filter and the connector. HDF5 is linked into the programs,
# because its shared library needs many other libraries. Copies nothing without
# Open MPI or without an HDF5 for it.
# TERP_HDF5_MPI: the folder of an HDF5 that was built for this Open MPI as a static
# library (include/hdf5.h, lib/libhdf5.a); by default the system's. The connector
# needs 1.14 or newer.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
build=build/carry-mpi

needs() {
    echo "MPI is not copied: $1 is missing (install openmpi-bin, libopenmpi-dev," \
        "libhdf5-openmpi-dev, libaec-dev and zlib1g-dev)"
    exit
}

# setting NAME: prints a folder of this Open MPI.
setting() {
    ompi_info --parsable --path "$1" | sed "s/^path:$1://"
}

# Copies the libraries that programs and plugins need, except for the C library:
# the other machine's must be used.
copy_libraries() {
    find "$folder/bin" "$folder/components" -type f -exec ldd {} + |
        sed -n 's/.* => \(\/.*\) (0x.*/\1/p' | sort -u |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' |
        xargs cp -L -t "$folder/lib"
}

for name in mpicc orterun ompi_info; do
    command -v "$name" >/dev/null || needs "$name"
done
if [ -n "${TERP_HDF5_MPI:-}" ]; then
    hdf5=$TERP_HDF5_MPI/lib/libhdf5.a
    headers=$TERP_HDF5_MPI/include
    [ -e "$hdf5" ] || needs "$hdf5"
else
    hdf5=$(mpicc -print-file-name=libhdf5_openmpi.a)
    headers=/usr/include/hdf5/openmpi
    [ -e "$hdf5" ] || needs "$(basename "$hdf5")"
fi

rm -rf "$folder"
mkdir -p "$folder"/{bin,lib,components,share,plugin} "$build"
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DTERP_CUDA=OFF \
    -DBUILD_TESTING=OFF >"$build/log"
cmake --build "$build" -j "$(nproc)" --target h5zterp h5vlterp \
    mpi_messages >>"$build/log"
cp "$build"/plugin/libh5{z,vl}terp.so "$folder/plugin/"
cp "$build/examples/mpi_messages" "$folder/bin/"
for source in examples/parallel_write.c h5tests/tools/mpi_patterns.c \
    bench/mpi_write.c; do
    # Filter and connector find all of HDF5 in the program.
    mpicc -O2 -rdynamic -I. -Ifilter/plugin -I"$headers" "$source" \
        -Wl,--whole-archive "$hdf5" -Wl,--no-whole-archive -lsz -laec -lz \
        -ldl -lm -o "$folder/bin/$(basename "$source" .c)"
done

cp -L "$(command -v orterun)" "$folder/bin/"
# Leaves out networks, batch systems, and components that start or watch processes.
find "$(setting pkglibdir)" -name 'mca_*.so' | grep -vE \
    -e '_(ofi|ucx|openib|usnic|psm2?|uct|slurm|flux|monitoring|rsh)\.so' \
    -e '/mca_(btl_tcp|(atomic|memheap|scoll|spml|sshmem)_)' |
    xargs cp -t "$folder/components"
cp -r "$(setting pkgdatadir)" "$folder/share/openmpi"
copy_libraries
strip "$folder"/{bin,lib,components,plugin}/*
cat >"$folder/bin/mpiexec" <<'END'
#!/bin/sh
# Runs Open MPI from this folder, with processes of this machine only.
here=$(cd "$(dirname "$0")/.." && pwd)
export OPAL_PREFIX="$here" OPAL_LIBDIR="$here/lib" \
    OPAL_PKGLIBDIR="$here/components" OPAL_DATADIR="$here/share" \
    OPAL_PKGDATADIR="$here/share/openmpi" OPAL_SYSCONFDIR="$here/etc" \
    PMIX_INSTALL_PREFIX="$here" PMIX_MCA_pcompress_base_silence_warning=1
export OMPI_MCA_plm=isolated OMPI_MCA_oob_tcp_if_include=lo \
    OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMPI_MCA_hwloc_base_binding_policy=none
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/bin/orterun" "$@"
END
chmod +x "$folder/bin/mpiexec"
echo "$folder: $(du -sh "$folder" | cut -f1)"
