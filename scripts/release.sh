#!/usr/bin/env bash
# Makes the files of a release from the committed tree: the source archive, the
# Python package's sdist and wheel (for this machine's glibc and later ones), the
# recipes of packaging/ with the archive's address and SHA-256, and SHA256SUMS. Makes
# each file twice, in folders of different names, and checks that both are equal bit
# for bit. scripts/everywhere.sh makes wheels for other systems.
#   scripts/release.sh [--source] [--home URL] [--url URL] [DIRECTORY]
# --source leaves the wheel out, which takes most of the time. The recipes name
# --home as terp's home page, and --url as the folder from which users download the
# archive. DIRECTORY is build/release-files by default. Without PyPI there is neither
# sdist nor wheel.
# TERP_RELEASE_PYTHON: a Python that has build, twine and scikit-build-core (by
# default they come from PyPI)
set -euo pipefail
cd "$(dirname "$0")/.."
only_source=false
home=https://example.org/terp
url=$home/releases
while [[ ${1:-} == --* ]]; do
    case $1 in
    --source) only_source=true ;;
    --home)
        home=${2:?}
        shift
        ;;
    --url)
        url=${2:?}
        shift
        ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
    shift
done
directory=$(realpath -m "${1:-build/release-files}")

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
install_packages "${TERP_BUILD_PACKAGES[@]}" git python3 python3-venv

version=$(sed -n 's/^#define TERP_VERSION "\(.*\)"/\1/p' codec/api/terp.h)
name=terp-$version
commit=$(git rev-parse HEAD) # which may move meanwhile
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_tarball() {
    git archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$1/$name.tar.gz"
}

# Unpacks the archive into a folder of its own name, as users do.
unpack() { # FOLDER NAME
    tar -xzf "$1/$name.tar.gz" -C "$1"
    mv "$1/$name" "$1/$2"
}

make_sdist() { # FOLDER NAME
    "$python" -m build -q --sdist --no-isolation -o "$1" "$1/$2"
}

make_wheel() { # FOLDER NAME
    CFLAGS="-ffile-prefix-map=$1/$2=." "$1/$2/scripts/wheel.sh" "$1/wheel"
    mv "$1"/wheel/*.whl "$1"
}

# Writes the recipes with the archive's address and checksum.
make_recipes() { # FOLDER NAME
    local sum
    sum=$(sha256sum "$1/$name.tar.gz" | cut -d' ' -f1)
    cp -r "$1/$2/packaging" "$1/recipes"
    find "$1/recipes" -type f \( -name '*.py' -o -name '*.yaml' -o -name '*.eb' \) \
        -exec sed -i -e "s,https://example.org/terp/releases,$url,g" \
        -e "s,https://example.org/terp,$home,g" -e "s/0\\{64\\}/$sum/" {} +
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w \
        --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -c recipes |
        gzip -9n >"$1/$name-recipes.tar.gz"
}

# logged FOLDER COMMAND...: shows the output of a command only if it fails.
logged() {
    "${@:2}" >"$1.log" 2>&1 || {
        tail -50 "$1.log"
        exit 1
    }
}

python=${TERP_RELEASE_PYTHON:-$work/venv/bin/python}
has_pypi=true
if [ -z "${TERP_RELEASE_PYTHON:-}" ]; then
    python3 -m venv "$work/venv"
    "$python" -m pip install -q --disable-pip-version-check build twine \
        'scikit-build-core>=0.11' >/dev/null 2>&1 || has_pypi=false
fi
$has_pypi || echo "There is neither sdist nor wheel: PyPI cannot be reached"
for folder in first second; do
    mkdir "$work/$folder"
    make_tarball "$work/$folder"
    unpack "$work/$folder" "a-$folder-folder"
    make_recipes "$work/$folder" "a-$folder-folder"
    $has_pypi || continue
    logged "$work/sdist" make_sdist "$work/$folder" "a-$folder-folder"
    $only_source ||
        logged "$work/wheel" make_wheel "$work/$folder" "a-$folder-folder"
done

! $has_pypi || logged "$work/twine" "$python" -m twine check --strict \
    "$work"/first/h5z_terp-*

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
