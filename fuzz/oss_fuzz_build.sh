#!/usr/bin/env bash
# Builds the fuzz targets for OSS-Fuzz: with $CC and $CFLAGS, linked to
# $LIB_FUZZING_ENGINE, into $OUT, with their seeds as TARGET_seed_corpus.zip and
# their options. Needs xxhash.h, cmocka and HDF5 (Debian: libxxhash-dev,
# libcmocka-dev, libhdf5-dev), zip, and a $WORK folder for intermediate files.
#   CC=clang CFLAGS='-g -O1 -fsanitize=address,fuzzer-no-link' \
#   LIB_FUZZING_ENGINE=-fsanitize=fuzzer OUT=/tmp/out WORK=/tmp/work \
#   fuzz/oss_fuzz_build.sh
set -euo pipefail
: "${CC:?}" "${CFLAGS?}" "${LIB_FUZZING_ENGINE:?}" "${OUT:?}" "${WORK:?}"
top=$(cd "$(dirname "$0")/.." && pwd)
targets=(frame inspect decode reader cd roundtrip rules files)
mkdir -p "$OUT" "$WORK"

# TERP_FUZZ links clang's name for libFuzzer; a file of that name, made here,
# links the other engine instead.
cmake -S "$top" -B "$WORK/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_C_FLAGS="$CFLAGS" -DTERP_CUDA=OFF -DTERP_FUZZ=ON \
    -DTERP_FUZZ_ENGINE="$LIB_FUZZING_ENGINE"
cmake --build "$WORK/build" -j "$(nproc)" --target fuzzers
for folder in stream cd roundtrip rules files; do
    mkdir -p "$WORK/seeds/$folder"
done
"$WORK/build/fuzz/make_corpus" "$WORK/seeds" rules files
for target in "${targets[@]}"; do
    cp "$WORK/build/fuzz/fuzz_$target" "$OUT/"
    max_len=4096
    case $target in
    frame | inspect | decode | reader) folder=stream ;;
    rules)
        folder=$target
        max_len=256
        ;;
    *) folder=$target ;;
    esac
    # Both folders may have the same input. Its name is its digest, so the names
    # are equal too.
    rm -f "$OUT/fuzz_${target}_seed_corpus.zip"
    find "$WORK/seeds/$folder" "$top/fuzz/corpus/$folder" -type f 2>/dev/null |
        awk -F/ '!seen[$NF]++' |
        zip -q -j "$OUT/fuzz_${target}_seed_corpus.zip" -@
    printf '[libfuzzer]\nmax_len = %d\ntimeout = 10\n' $max_len \
        >"$OUT/fuzz_$target.options"
done
