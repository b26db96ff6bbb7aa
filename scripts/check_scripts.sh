#!/usr/bin/env bash
# Runs shellcheck on every shell script of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
judged_by shellcheck 0.9
mapfile -t files < <(find . -name '*.*sh' -not -path './build*' \
    -not -path './.*')
shellcheck -x "${files[@]}" .ci/run
echo "$((${#files[@]} + 1)) scripts are clean"
