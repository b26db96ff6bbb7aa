#!/usr/bin/env bash
# Builds conda's package h5z-terp from the files of PyPI's wheel. conda sets PREFIX,
# SRC_DIR, PYTHON and CMAKE_ARGS.
set -eu
"$PYTHON" -m pip install --no-deps --no-index --no-build-isolation -v \
    "$SRC_DIR"
# The package terp has the tool, a program with the same name.
rm "$PREFIX/bin/terp"
