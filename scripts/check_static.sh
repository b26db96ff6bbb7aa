#!/usr/bin/env bash
# Static analysis of every file that a build compiles; findings are errors.
#   scripts/check_static.sh cppcheck|clang-tidy BUILD_DIR
set -euo pipefail
tool=$1
database=$(cd "$2" && pwd)/compile_commands.json
cd "$(dirname "$0")/.."

if ! command -v "$tool" >/dev/null; then
    echo "skipped: needs $tool"
    exit 77
fi
case $tool in
cppcheck)
    cppcheck --project="$database" --quiet --error-exitcode=1 -j "$(nproc)" \
        --enable=warning,performance,portability --inline-suppr \
        --suppress=missingIncludeSystem --suppress=arrayIndexThenCheck
    ;;
clang-tidy)
    sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$database" | sort -u |
        grep -v '/codebooks/\(frequencies\|tables\)\.c$' |
        xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "${database%/*}"
    ;;
esac
echo "$tool found nothing"
