#!/usr/bin/env bash
# Builds terp with counters in it, runs the tests of the codec, the filter and the
# connector, and prints how many branches of each file that reads streams were
# taken, with the lines where some were not.
#   scripts/coverage.sh           builds, runs all of these tests, reports
#   scripts/coverage.sh REGEX     as above, the tests of that name alone
#   scripts/coverage.sh --report  reports what earlier runs have counted
# build/coverage/html/index.html shows the lines. JOBS: processes at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" gcovr libcmocka-dev libhdf5-dev \
    python3 python3-h5py python3-numpy
jobs=${JOBS:-$(nproc)}
build=build/coverage

# What a stream, a file's words or a rule reach; encoders beside them are counted
# where they share a file. Tuners and searches of the encoder are left out.
files=(codec/format/ codec/model/ codec/api/ cpu/ filter/plugin/ filter/h5/ vol/
    decoder/)
without=('.*_tuner\.c' '.*tiles_encode\.c' '.*histogram\.c' '.*references_find\.c'
    '.*measure\.c' 'codec/(api|model)/psnr\.[ch]' '.*_samples\.h')

if [ "${1:-}" != --report ]; then
    export CMAKE_C_COMPILER_LAUNCHER=
    if command -v ccache >/dev/null; then
        CMAKE_C_COMPILER_LAUNCHER=ccache
    fi
    mkdir -p "$build"
    if ! {
        cmake --preset coverage
        cmake --build --preset coverage -j "$jobs"
    } >"$build.log" 2>&1; then
        tail -50 "$build.log"
        exit 1
    fi
    [ $# -gt 0 ] || find "$build" -name '*.gcda' -delete
    ctest --preset coverage -j "$jobs" --label-exclude '^tree$' ${1:+-R "$1"}
fi

mkdir -p "$build/html"
arguments=(--root . --object-directory "$build" --gcov-ignore-parse-errors)
for file in "${files[@]}"; do
    arguments+=(--filter "$file")
done
for file in "${without[@]}"; do
    arguments+=(--exclude "$file")
done
gcovr "${arguments[@]}" "$build" -j "$jobs" \
    --branches --txt "$build/branches.txt" \
    --html-details "$build/html/index.html" --json "$build/branches.json"
cat "$build/branches.txt"
python3 - "$build/branches.json" <<'END_OF_SUMS'
import collections, json, sys
taken, total = collections.Counter(), collections.Counter()
with open(sys.argv[1]) as file:
    for entry in json.load(file)["files"]:
        name = entry["file"]
        group = ("/".join(name.split("/")[:2]) if name.startswith("filter")
                 else "codec, cpu" if name.startswith(("codec/", "cpu/"))
                 else name.split("/")[0])
        for line in entry["lines"]:
            total[group] += len(line["branches"])
            taken[group] += sum(b["count"] > 0 for b in line["branches"])
for group in sorted(total):
    print("%-16s %5d of %5d branches, %.1f %%" % (
        group, taken[group], total[group], 100 * taken[group] / total[group]))
END_OF_SUMS
