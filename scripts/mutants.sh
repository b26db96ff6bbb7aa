#!/usr/bin/env bash
# Mutation testing: changes one line of terp's sources at a time, by the rules of
# universalmutator, and checks whether a test fails. doc/mutants.md has the results.
#   scripts/mutants.sh                    600 mutants of code that decodes or checks
#   scripts/mutants.sh --count 50 FILE... 50 mutants of these files
#   scripts/mutants.sh --seed 2           other mutants than those of seed 1
#   scripts/mutants.sh --again            mutants that survived according to --out,
#                                         and new ones where their line is gone
#   scripts/mutants.sh --sanitize --again the same with ASan and UBSan
# --seconds 5: CPU time of tests after which a mutant has survived; --again runs all
# tests.
# --out FILE (bench/results/mutants.csv) gets a row per mutant; mutants with a row are
# not tested again. JOBS: number of processes.
set -euo pipefail
export TERP_TEST_SEED=${TERP_TEST_SEED:-1} # runs are compared
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" clang ccache libcmocka-dev libhdf5-dev \
    python3 python3-venv
jobs=${JOBS:-1}
venv=build/mutants/venv
rules=universalmutator==1.14.1 # other versions make other mutants

mkdir -p build/mutants
[ -x "$venv/bin/python3" ] || python3 -m venv "$venv"
if ! "$venv/bin/pip" install -q --disable-pip-version-check "$rules" \
    >build/mutants/pip.log 2>&1; then
    echo "skipped: pip cannot install $rules, see build/mutants/pip.log"
    exit 77
fi

# One instruction set suffices: others compile the same sources. Warnings are not
# errors, because a mutant may leave a variable unused. Tests run a quarter of their
# cases, which kill nearly as many mutants.
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
