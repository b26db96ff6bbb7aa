#!/usr/bin/env bash
# Demonstrates terp on Debian or Ubuntu: builds it, runs a small simulation that
# does not use terp, compresses its file with h5repack, and reads the result with
# h5dump. Takes about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" libhdf5-dev hdf5-tools

# quietly COMMAND...: shows the output of a command only if it fails.
quietly() {
    "$@" >"$build.log" 2>&1 || {
        cat "$build.log" >&2
        echo "failed: $*" >&2
        exit 1
    }
}

build=$PWD/build/demo
mkdir -p build
echo "Building terp ..."
quietly cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
    -DTERP_CUDA=OFF
quietly cmake --build "$build" -j "$(nproc)" --target h5zterp terp gray_scott

# Readers and writers of HDF5 files need no other setting.
export HDF5_PLUGIN_PATH=$build/plugin

cd "$build"
echo "Simulating: Gray-Scott, 128^3 points, 400 steps, uncompressed output ..."
quietly examples/gray_scott plain.h5 128 400 2 0

parameters=UD=46117,0,3,2,1,3
echo "Compressing: h5repack -f $parameters plain.h5 terp.h5"
quietly h5repack -f "$parameters" plain.h5 terp.h5

echo "Reading one row of values with h5dump:"
for file in plain terp; do
    printf '  %-10s' "$file.h5"
    h5dump -d /step_000400/u -s 17,91,59 -c 1,1,6 -y -w 80 "$file.h5" |
        awk '$1 == "DATA" && !seen++ { getline; $1 = $1; print }'
done

echo "Comparing every value: terp compare plain.h5 terp.h5"
# If an error exceeds its bound, compare fails, and so does this script.
tools/terp compare plain.h5 terp.h5 >compare.txt || {
    cat compare.txt >&2
    exit 1
}
sed 's/^/  /' compare.txt

awk -v plain="$(stat -c %s plain.h5)" -v terp="$(stat -c %s terp.h5)" '
    NR > 1 && $2 > worst { worst = $2 }
    END {
        printf "Done: %.1f MB became %.2f MB, ratio %.1f;", plain / 1e6,
            terp / 1e6, plain / terp
        printf " the largest error is %.4f of its bound.\n", worst
    }' compare.txt
