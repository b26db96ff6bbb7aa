#!/usr/bin/env bash
# Static analysis of every file that a build compiles; findings are errors.
#   scripts/check_static.sh cppcheck|clang-tidy BUILD_DIR
set -euo pipefail
tool=$1
database=$(cd "$2" && pwd)/compile_commands.json
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
case $tool in
cppcheck)
    judged_by cppcheck 2.10
    cppcheck --project="$database" --quiet --error-exitcode=1 -j "$(nproc)" \
        --enable=warning,performance,portability --inline-suppr \
        --suppress=missingIncludeSystem --suppress=arrayIndexThenCheck
    ;;
clang-tidy)
    judged_by clang-tidy 14
    sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$database" | sort -u |
        grep -v '/codebooks/\(frequencies\|tables\)\.c$' |
        xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "${database%/*}"
    ;;
esac
echo "$tool found nothing"
