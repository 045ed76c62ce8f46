#!/usr/bin/env bash
# From nothing to a verified comparison: installs what is needed, builds, brings up an emulated cluster of 8 nodes in 2
# racks, compares the offloaded with the host-driven all-reduce, prints the table, writes quickstart.svg and
# quickstart.json, and takes the cluster down. Run it from anywhere; the results land in the current directory.
set -euo pipefail

source_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
results=$PWD
lab=quickstart-$$
build=$source_directory/build/release
log=$(mktemp)

die() {
  echo "quickstart.sh: $*" >&2
  exit 1
}

# Whatever the reason for which we end, the lab goes and so does the log.
clean_up() {
  "$build/bin/foldcast" lab down --name "$lab" >/dev/null 2>&1 || true
  rm -f "$log"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

quietly() {
  "$@" >"$log" 2>&1 && return
  tail -n 40 "$log" >&2
  die "failed: $*"
}

"$source_directory/tools/install_packages.sh" build
echo "building (a few minutes the first time)"
cd "$source_directory"
quietly cmake --preset release -DFOLDCAST_BUILD_TESTS=OFF
quietly cmake --build --preset release --target foldcast_cli foldcastd
cd "$results"

"$build/bin/foldcast" lab up --name "$lab" --nodes 8 --racks 2 --rate 200mbit
"$build/bin/foldcast" lab run --name "$lab" -t 400 -- foldcast perf all_reduce -b 1K -e 16M -f 4 -n 5 -w 1 -c 1 \
  --path offload,host -J quickstart.json --plot quickstart.svg
echo "wrote $results/quickstart.svg and $results/quickstart.json"
