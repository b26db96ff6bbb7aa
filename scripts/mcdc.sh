#!/usr/bin/env bash
# Measures modified condition/decision coverage: builds terp with clang's counters,
# runs the codec's tests, and prints for the parsers of streams the number of
# conditions that the tests show to decide independently, and the others.
#   scripts/mcdc.sh           builds, runs the tests, reports
#   scripts/mcdc.sh --report  reports the counts of the last run
# Needs clang and llvm 19 or later, as in Debian 13. JOBS: number of processes.
set -euo pipefail
export TERP_TEST_SEED=${TERP_TEST_SEED:-1} # runs are compared
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" clang-19 llvm-19 \
    libclang-rt-19-dev libcmocka-dev libhdf5-dev
jobs=${JOBS:-$(nproc)}
build=build/mcdc

if [ "${1:-}" != --report ]; then
    mkdir -p "$build"
    counters="-fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc"
    if ! {
        cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug \
            -DCMAKE_C_COMPILER=clang-19 -DTERP_EMULATE_CUDA=OFF \
            -DCMAKE_C_FLAGS="-O1 $counters -DTERP_FEWER_CASES=4u"
        cmake --build "$build" -j "$jobs"
    } >"$build.log" 2>&1; then
        tail -50 "$build.log"
        exit 1
    fi
    rm -rf "$build/counts"
    export LLVM_PROFILE_FILE=$PWD/$build/counts/%4m.profraw
    for tests in '-L codec' '-R ^format'; do
        # shellcheck disable=SC2086 # an option and its value
        ctest --test-dir "$build" -j "$jobs" --output-on-failure $tests
    done
fi

llvm-profdata-19 merge -o "$build/counts.profdata" "$build"/counts/*.profraw
objects=()
for program in "$build"/h5tests/{test_*,make_pairs}; do
    [ ! -f "$program" ] || [ ! -x "$program" ] || objects+=(-object "$program")
done
llvm-cov-19 export -instr-profile="$build/counts.profdata" "${objects[@]:1}" \
    codec/format codec/api/inspect.c codec/api/cd_values.c cpu/sections \
    >"$build/counts.json" 2>/dev/null
python3 - "$build/counts.json" <<'END_OF_SUMS'
import json, os, sys
with open(sys.argv[1]) as file:
    files = json.load(file)["data"][0]["files"]
shown = total = 0
for entry in files:
    # Each program has its own copy of a header's functions; one suffices.
    decisions = {}
    for record in entry.get("mcdc_records", []):
        position, conditions = tuple(record[:2]), record[-1]
        before = decisions.setdefault(position, [False] * len(conditions))
        decisions[position] = [a or b for a, b in zip(before, conditions)]
    name = os.path.relpath(entry["filename"])
    for (line, column), conditions in sorted(decisions.items()):
        total += len(conditions)
        shown += sum(conditions)
        missed = [str(i + 1) for i, c in enumerate(conditions) if not c]
        if missed:
            print("%s:%d:%d: %s of %d conditions" % (
                name, line, column, ", ".join(missed), len(conditions)))
print("%d of %d conditions, %.1f %%" % (shown, total, 100 * shown / total))
END_OF_SUMS
