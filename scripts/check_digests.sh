#!/usr/bin/env bash
# Fails unless two builds of stream_digest print the same digests: unless two
# compilers, or two optimization levels, make the same streams.
#   scripts/check_digests.sh PROGRAM OTHER_PROGRAM
set -euo pipefail
one=$("$1")
other=$("$2")
diff <(echo "$one") <(echo "$other")
ndigests=$(grep -c . <<<"$one")
echo "$ndigests digests agree"
