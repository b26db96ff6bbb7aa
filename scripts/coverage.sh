#!/usr/bin/env bash
# Builds terp with counters in it, runs the tests of the codec, the filter, the
# connector and the second decoder, and prints how many branches of each file that
# reads streams were taken, the lines where some were not, and sums.
#   scripts/coverage.sh           builds, runs all of these tests, reports
#   scripts/coverage.sh REGEX     as above, the tests of that name alone
#   scripts/coverage.sh --report  reports what earlier runs have counted
# build/coverage/html/index.html shows the lines. JOBS: processes at a time.
set -euo pipefail
export TERP_TEST_SEED=${TERP_TEST_SEED:-1} # runs are compared
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
# Lines of which some branch was not taken, by the function, and the sums.
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
        begin = re.match(r"([A-Za-z_]\w*)\(", line) # as the formatter puts it
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
