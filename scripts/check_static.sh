#!/usr/bin/env bash
# Runs clang-tidy on files that a build compiles; findings are errors.
#   scripts/check_static.sh BUILD_DIR [NODES]
# Checks the files that the last 50 commits or the working tree changed, and a third
# of the other files. Each day takes another third, so three days check all files.
# TERP_TEST_SEED=N takes the third of day N. TERP_TEST_ALL=1 checks all files. A tree
# without these commits has all files checked too.
# NODES: the number of states in which clang's analyzer follows a function (2500 by
# default; the analyzer's own limit is 225000).
set -euo pipefail
database=$(cd "$1" && pwd)/compile_commands.json
nodes=${2:-2500}
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
judged_by clang-tidy 14
# Checks a file once, even if several targets compile it.
once=$(mktemp -d)
trap 'rm -r "$once"' EXIT
python3 - "$database" "$once/compile_commands.json" >"$once/files" <<'END'
import json, os, subprocess, sys, time, zlib
with open(sys.argv[1]) as database, open(sys.argv[2], "w") as once:
    commands = {c["file"]: c for c in reversed(json.load(database))}
    json.dump(list(commands.values()), once)
files = {os.path.relpath(f): f for f in commands}
git = subprocess.run(["git", "diff", "--name-only", "--relative", "HEAD~50"],
                     capture_output=True, text=True)
if git.returncode == 0 and "TERP_TEST_ALL" not in os.environ:
    seed = int(os.environ.get("TERP_TEST_SEED", time.time() // 86400))
    changed = git.stdout.splitlines()
    taken = {f for f in files
             if f in changed or (zlib.crc32(f.encode()) + seed) % 3 == 0}
    print(f"{len(taken)} of {len(files)} files: TERP_TEST_SEED={seed} takes the",
          "same files again, TERP_TEST_ALL=1 takes all", file=sys.stderr)
    files = {f: files[f] for f in taken}
print(*files.values(), sep="\n")
END
# Largest files first: no process then ends long after the others. The analyzer runs
# on installed code; in CUDA files it would follow the emulator, and checks that look
# for other problems than defects would take half of the time. The macro leaves
# libstdc++'s special functions out of <math.h>, which take longer than the rest of
# a small CUDA file.
in_cuda='-clang-analyzer-*,-cert-*,-misc-*,-performance-*,-portability-*'
in_tests='-clang-analyzer-*'
# shellcheck disable=SC2016 # the inner shell expands
grep -v '/codebooks/\(frequencies\|tables\)\.c$' "$once/files" | xargs ls -S |
    xargs -P "$(nproc)" -n 1 sh -c 'case $4 in
        *.cu) set -- "$@" --checks="$1" ;;
        */h5tests/* | */bench/*) set -- "$@" --checks="$2" ;;
        esac
        shift 2
        clang-tidy --quiet --extra-arg=-D_GLIBCXX_BITS_SPECFUN_H --extra-arg-before=-Xclang \
            --extra-arg-before=-analyzer-config --extra-arg-before=-Xclang \
            --extra-arg-before=max-nodes="$0" -p "$@"' \
        "$nodes" "$in_cuda" "$in_tests" "$once"
echo "clang-tidy found nothing"
