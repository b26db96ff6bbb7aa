#!/usr/bin/env bash
# Builds conda's package h5z-terp, which holds the same files as PyPI's wheel. conda
# sets PREFIX, SRC_DIR, PYTHON and CMAKE_ARGS.
set -eu
"$PYTHON" -m pip install --no-deps --no-index --no-build-isolation -v \
    "$SRC_DIR"
