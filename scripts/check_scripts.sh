#!/usr/bin/env bash
# Runs shellcheck over every shell script of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v shellcheck >/dev/null; then
    echo "skipped: needs shellcheck"
    exit 77
fi
mapfile -t files < <(find . -name '*.*sh' -not -path './build*' \
    -not -path './.*')
shellcheck -x "${files[@]}" .ci/run
echo "$((${#files[@]} + 1)) scripts are clean"
