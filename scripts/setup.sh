# Functions for the other scripts: install Debian packages, and check the versions
# of formatters and linters.
# shellcheck shell=bash

# Packages that every build of terp needs.
# shellcheck disable=SC2034 # read by the scripts that source this one
TERP_BUILD_PACKAGES=(gcc libc6-dev make cmake libxxhash-dev)

# install_packages PACKAGE...: installs missing packages if no password is needed;
# otherwise prints what to install and exits.
install_packages() {
    local missing=() package as_root=()
    if ! command -v dpkg-query apt-get >/dev/null; then
        echo "This is not Debian or Ubuntu: install these packages (Debian's" \
            "names) yourself: $*" >&2
        return 0
    fi
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" \
            2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "Packages are missing. Please run:" >&2
            echo "    sudo apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo -n)
    fi
    echo "Installing: ${missing[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# apt_apart FOLDER ARGUMENT...: runs apt-get in FOLDER/apt with separate lists, which
# include sources, and packages for `apart_processors`: by default both processors
# that wheels support. apt takes the first one for the machine's own. Installs
# nothing on the machine.
apt_apart() {
    local apt=$1/apt processor apart=()
    for processor in ${apart_processors:-amd64 arm64}; do
        [ ${#apart[@]} -gt 0 ] || apart=(-o "APT::Architecture=$processor")
        apart+=(-o "APT::Architectures::=$processor")
    done
    mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/archives/partial"
    sed 's/^Types: .*/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources \
        >"$apt/parts/debian.sources"
    (
        cd "$apt" || exit
        apt-get -q -o Dir::Etc::sourcelist=/dev/null \
            -o Dir::Etc::sourceparts="$PWD/parts" \
            -o Dir::State::lists="$PWD/lists" \
            -o Dir::State::status=/dev/null \
            -o Dir::Cache::archives="$PWD/archives" "${apart[@]}" "${@:2}"
    )
}

# fetch_sources FOLDER NAME...: unpacks the original sources of Debian's packages in
# FOLDER/NAME.
fetch_sources() {
    local name
    apt_apart "$1" update
    apt_apart "$1" source --download-only "${@:2}"
    for name in "${@:2}"; do
        mkdir -p "$1/$name"
        find "$1/apt" -name "${name}_*.orig.tar.*" ! -name '*.asc' -exec \
            tar -xf {} -C "$1/$name" --strip-components=1 \;
    done
}

# judged_by TOOL VERSION: ends a test as skipped if TOOL has another version than
# CI's: versions find different things.
judged_by() {
    local found
    found=$("$1" --version 2>/dev/null |
        sed -n '0,/[0-9]/s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p') || true
    if [[ $found. != "$2".* ]]; then
        echo "skipped: needs $1 $2, found ${found:-none}"
        exit 77
    fi
}
