#!/usr/bin/env bash
# Installs the Debian packages that Foldcast needs: tools/install_packages.sh [build|test]
# build (default): to build and run it; test: also to build and run the tests. Only what is missing, quietly.
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config libucx-dev libibverbs-dev librdmacm-dev libhwloc-dev
  libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libhwy-dev libssl-dev gnuplot-nox
  iproute2 nftables)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev python3)

die() {
  echo "install_packages.sh: $*" >&2
  exit 1
}

case "${1:-build}" in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  *) die "'$1' is unknown; it is build or test" ;;
esac
if ! command -v dpkg-query >/dev/null; then
  die "this is no Debian system; install the equivalents of: ${wanted[*]}"
fi

# gnuplot-nox, for one, is only one of the packages that provide gnuplot.
is_installed() {
  [[ $1 == gnuplot-nox ]] && command -v gnuplot >/dev/null && return 0
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
    die "missing: ${missing[*]}; install them as root (or allow sudo without a password)"
  as_root=(sudo -n)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends "$@" >"$log" 2>&1
}
echo "installing ${missing[*]}"
# The lists may be absent or stale: fetched only when the packages cannot be had without.
apt install "${missing[@]}" && exit 0
if ! apt update || ! apt install "${missing[@]}"; then
  tail -n 20 "$log" >&2
  die "apt-get could not install: ${missing[*]}"
fi
