#!/usr/bin/env bash
# Fails when clang-format 14 would change a C, C++ or CUDA file; with --fix,
# changes it.
# Generated tables keep the form that their generator gave them.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
judged_by clang-format 14

mapfile -t files < <(find . -regex '.*\.\(c\|h\|cpp\|cu\|cuh\)' \
    -not -path './build*' -not -path './.*' \
    -not -path './codebooks/frequencies.c' -not -path './codebooks/tables.c')
if [ "${1-}" = --fix ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run --Werror "${files[@]}"
    echo "${#files[@]} files are formatted"
fi
