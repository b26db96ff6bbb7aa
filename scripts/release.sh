#!/usr/bin/env bash
# Makes the files of a release from the committed tree: the tarball, the wheel for
# this machine's glibc and later ones, and SHA256SUMS. Makes each file twice, in
# folders of different names, and checks that both are equal bit for bit.
#   scripts/release.sh [DIRECTORY]    default: build/release-files
# Without PyPI there is no wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(realpath -m "${1:-build/release-files}")

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" git python3 python3-venv

version=$(sed -n 's/^#define TERP_VERSION "\(.*\)"/\1/p' codec/api/terp.h)
name=terp-$version
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_tarball() {
    git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$1/$name.tar.gz"
}

# Makes the wheel from the tarball, like users do.
make_wheel() {
    tar -xzf "$1/$name.tar.gz" -C "$1"
    mv "$1/$name" "$1/$2"
    CFLAGS="-ffile-prefix-map=$1/$2=." "$1/$2/scripts/wheel.sh" "$1/wheel"
    mv "$1"/wheel/*.whl "$1"
}

python3 -m venv "$work/venv"
has_pypi=true
"$work/venv/bin/pip" download -q --no-deps -d "$work/pypi" wheel \
    >/dev/null 2>&1 || has_pypi=false
for folder in first second; do
    mkdir "$work/$folder"
    make_tarball "$work/$folder"
    if $has_pypi; then
        make_wheel "$work/$folder" "a-$folder-folder" >"$work/wheel.log" 2>&1 || {
            tail -50 "$work/wheel.log"
            exit 1
        }
    else
        echo "There is no wheel: PyPI cannot be reached"
    fi
done

mkdir -p "$directory"
rm -f "$directory"/*
for file in "$work"/first/*.tar.gz "$work"/first/*.whl; do
    [ -e "$file" ] || continue
    if ! cmp "$file" "$work/second/${file##*/}"; then
        echo "${file##*/} differs when it is made twice" >&2
        exit 1
    fi
    cp "$file" "$directory"
done
(cd "$directory" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
