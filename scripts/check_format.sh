#!/usr/bin/env bash
# Fails if clang-format 14 would change a C, C++ or CUDA file; with --fix, formats
# the files. Generated tables keep the format of their generators.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
judged_by clang-format 14

mapfile -t files < <(find . -regex '.*\.\(c\|h\|cpp\|cu\|cuh\)' \
    -not -path './build*' -not -path './.*' -not -path './third_party/*' \
    -not -path './codebooks/frequencies.c' -not -path './codebooks/tables.c')
if [ "${1-}" = --fix ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run --Werror "${files[@]}"
    echo "${#files[@]} files are formatted"
fi
