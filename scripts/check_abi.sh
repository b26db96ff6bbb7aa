#!/usr/bin/env bash
# Compares the ABI of libterp.so (functions, names and structs) with the record
# codec/libterp.abi. Fails if a program that was linked earlier would miss a name,
# or find a member at another offset. Only prints additions.
#   scripts/check_abi.sh           compares
#   scripts/check_abi.sh --record  replaces the record
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
judged_by abidiff 2.2
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "skipped: the record is for Linux on x86-64"
    exit 77
fi
record=codec/libterp.abi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# Debug information describes the structs; its paths must not depend on this folder.
if ! {
    cmake -S . -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DTERP_HDF5=OFF \
        -DTERP_CUDA=OFF -DBUILD_TESTING=OFF \
        "-DCMAKE_C_FLAGS=-ffile-prefix-map=$PWD/="
    cmake --build "$work/build" --target terp_shared -j "$(nproc)"
} >"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
fi
mkdir "$work/headers"
cp codec/api/terp.h codec/api/terp_status.h "$work/headers"
abidw --headers-dir "$work/headers" --drop-private-types \
    --exported-interfaces-only --no-show-locs --no-comp-dir-path \
    --no-corpus-path --no-architecture --no-elf-needed --no-parameter-names \
    --no-write-default-sizes --type-id-style hash \
    --out-file "$work/new.abi" "$work/build/lib/libterp.so"
if [ "${1:-}" = --record ]; then
    cp "$work/new.abi" "$record"
    echo "$record is the ABI of libterp.so now"
    exit
fi

# members STRUCT FILE: prints the members of the struct and their offsets.
members() {
    sed -n "/class-decl name='$1'/,/<.class-decl/p" "$2" | grep -v class-decl
}

# differs FILE [OPTION...]: whether the library differs from the record in FILE;
# $work/said says why. abidiff ignores the structs that may grow.
differs() {
    local struct
    abidiff --suppressions codec/libterp.suppr --no-show-locs "${@:2}" \
        "$1" "$work/new.abi" >"$work/said" || return 0
    for struct in params info context_options run_options run_result; do
        members terp_$struct "$1" >"$work/old_members"
        if ! members terp_$struct "$work/new.abi" |
            head -n "$(wc -l <"$work/old_members")" |
            diff "$work/old_members" - >>"$work/said"; then
            echo "^ in struct terp_$struct" >>"$work/said"
            return 0
        fi
    done
    return 1
}

if differs "$record" --no-added-syms; then
    cat "$work/said"
    cat >&2 <<END_OF_ADVICE
libterp.so differs from $record. Programs that are linked with a released
version would break. Change the SONAME with a new major version, or undo the
change. Before a release, or if no program can depend on the difference:
    scripts/check_abi.sh --record
END_OF_ADVICE
    exit 1
fi

# Tests this check with edited records: libraries that had something else, or less.
check_edit() {
    local found=allowed
    sed "$2" "$record" >"$work/edited.abi"
    ! differs "$work/edited.abi" --no-added-syms || found=refused
    if cmp -s "$record" "$work/edited.abi" || [ $found != "$1" ]; then
        echo "the check should have $1 this edited record: $2" >&2
        exit 1
    fi
}
# A function disappears.
check_edit refused 's/terp_version/terp_edition/g'
# All functions have another version, or the library another SONAME.
check_edit refused "s/\(version='TERP_\)1'/\12'/"
check_edit refused "s/\(soname='libterp.so.\)1/\12/"
# A status has another number.
check_edit refused "/name='TERP_ERR_HDF5'/s/value='12'/value='13'/"
# A struct without a size grows, a member moves, a function returns an int.
check_edit refused "/name='terp_chunk'/s/size-in-bits='384'/size-in-bits='320'/"
check_edit refused \
    "/'terp_params'/,/<.class-decl/s/in-bits='128'/in-bits='192'/"
check_edit refused "/function-decl name='terp_chunk_nbytes'/,/<return/s/\
<return type-id='[0-9a-f]*'/<return type-id='95e97e5e'/"
# A function is new; the last member of a struct with a size is new.
check_edit allowed "/symbol name='terp_version'/d; \
/function-decl name='terp_version'/,/<.function-decl/d"
check_edit allowed "/layout-offset-in-bits='832'/{N;/'format'/{N;d}}; \
/name='terp_params'/s/size-in-bits='896'/size-in-bits='832'/"

if ! abidiff --no-show-locs "$record" "$work/new.abi"; then
    echo "These additions are allowed; scripts/check_abi.sh --record records them."
else
    echo "libterp.so has the ABI of $record"
fi
