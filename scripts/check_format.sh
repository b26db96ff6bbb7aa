#!/usr/bin/env bash
# Fails when clang-format would change a C, C++ or CUDA file; with --fix,
# changes it.
# Generated tables keep the form that their generator gave them.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(clang-format --version 2>/dev/null |
    sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "${version:-0}" -lt 14 ]; then
    echo "skipped: needs clang-format 14 or newer"
    exit 77
fi

mapfile -t files < <(find . -regex '.*\.\(c\|h\|cpp\|cu\|cuh\)' \
    -not -path './build*' -not -path './.*' \
    -not -path './codebooks/frequencies.c' -not -path './codebooks/tables.c')
if [ "${1-}" = --fix ]; then
    clang-format -i "${files[@]}"
else
    clang-format --dry-run --Werror "${files[@]}"
    echo "${#files[@]} files are formatted"
fi
