#!/usr/bin/env bash
# Measures branch coverage: builds terp with counters, runs the tests of the codec,
# the filter, the connector and the second decoder, and prints for each file that
# reads streams the number of branches taken, the lines with branches not taken, and
# sums.
#   scripts/coverage.sh           builds, runs the tests, reports
#   scripts/coverage.sh REGEX     the same for tests whose names match
#   scripts/coverage.sh --report  reports the counts of earlier runs
# build/coverage/html/index.html shows the lines. JOBS: number of processes.
set -euo pipefail
export TERP_TEST_SEED=${TERP_TEST_SEED:-1} # runs are compared
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" gcovr libcmocka-dev libhdf5-dev \
    python3 python3-h5py python3-numpy
jobs=${JOBS:-$(nproc)}
build=build/coverage

# Files that streams, the words in HDF5 files or rules can reach. Encoders count
# where they share a file with a decoder. Tuners and searches do not count.
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
# Prints the lines with branches not taken, with their function, and the sums.
python3 - "$build/branches.json" <<'END_OF_SUMS'
import collections, json, re, sys
rows = {"codec, cpu": ("codec/", "cpu/"), "  codec/format": ("codec/format/",),
        "filter/plugin": ("filter/plugin/",), "filter/h5": ("filter/h5/",),
        "vol": ("vol/",), "decoder": ("decoder/",)}
taken, total = collections.Counter(), collections.Counter()
with open(sys.argv[1]) as file:
    entries = json.load(file)["files"]
for entry in sorted(entries, key=lambda entry: entry["file"]):
    name, function, of_line = entry["file"], "", {}
    with open(name) as source:
        lines = source.read().splitlines()
    for number, line in enumerate(lines, 1):
        begin = re.match(r"([A-Za-z_]\w*)\(", line) # the formatter's style
        function = begin.group(1) if begin else function
        of_line[number] = function
    for line in entry["lines"]:
        number, branches = line["line_number"], line["branches"]
        ntaken = sum(branch["count"] > 0 for branch in branches)
        for row, begins in rows.items():
            if name.startswith(begins):
                total[row] += len(branches)
                taken[row] += ntaken
        if ntaken < len(branches):
            print("%s:%d: %s: %d of %d: %s" % (
                name, number, of_line[number], ntaken, len(branches),
                lines[number - 1].strip()))
for row in rows:
    print("%-16s %5d of %5d branches, %.1f %%" % (
        row, taken[row], total[row], 100 * taken[row] / max(total[row], 1)))
END_OF_SUMS
