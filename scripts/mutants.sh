#!/usr/bin/env bash
# Changes terp's sources in one place at a time, by the rules of universalmutator,
# and sees whether a test notices. doc/mutants.md tells what it found.
#   scripts/mutants.sh                    600 mutants of what decodes and checks
#   scripts/mutants.sh --count 50 FILE... 50 of these files
#   scripts/mutants.sh --seed 2           others than those of seed 1
#   scripts/mutants.sh --again            those once more that --out says survived,
#                                         and others for those whose line is gone
#   scripts/mutants.sh --sanitize --again the same, with ASan and UBSan
# --seconds 5: of tests, by what they take of a processor, before a mutant has
# survived; --again runs all.
# --out FILE (bench/results/mutants.csv) has a row a mutant; where it has some of
# them already, only the others are tested. JOBS: processes at a time.
set -euo pipefail
export TERP_TEST_SEED=${TERP_TEST_SEED:-1} # runs are compared
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" clang ccache libcmocka-dev libhdf5-dev \
    python3 python3-venv
jobs=${JOBS:-1}
venv=build/mutants/venv
rules=universalmutator==1.14.1 # another version makes other mutants

mkdir -p build/mutants
[ -x "$venv/bin/python3" ] || python3 -m venv "$venv"
if ! "$venv/bin/pip" install -q --disable-pip-version-check "$rules" \
    >build/mutants/pip.log 2>&1; then
    echo "skipped: PyPI cannot be reached, or lacks $rules; build/mutants/pip.log"
    exit 77
fi

# One set of instructions: the others are of the same sources. Warnings are no
# errors, since a mutant may leave a variable unused. Tests take a quarter of their
# products of cases, which does not change what they find of a mutant by much.
build=build/mutants/plain
arguments=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-DTERP_FEWER_CASES=4u)
for argument in "$@"; do
    if [ "$argument" = --sanitize ]; then
        build=build/mutants/sanitized
        arguments=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang
            "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1"
            "-DTERP_SANITIZE=address,undefined,float-cast-overflow")
    fi
done
mapfile -t targets < <(python3 scripts/mutants.py --targets)
if ! {
    cmake -S . -B "$build" -G "Unix Makefiles" -DTERP_CUDA=OFF -DTERP_WERROR=OFF \
        -DTERP_HAS_AVX2=OFF -DTERP_EMULATE_CUDA=OFF \
        -DCMAKE_C_COMPILER_LAUNCHER=ccache "${arguments[@]}"
    cmake --build "$build" -j "$jobs" --target "${targets[@]}"
} >"$build.log" 2>&1; then
    tail -50 "$build.log"
    exit 1
fi
exec "$venv/bin/python3" scripts/mutants.py --build "$build" --jobs "$jobs" "$@"
