#!/usr/bin/env bash
# Builds and runs the tests: tests/run.sh [--preset release|debug|asan|tsan] [ctest arguments]
# Installs what it needs. The last line says how many test programs passed, failed and were skipped.
set -euo pipefail

source_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
if [[ ${1:-} == --preset ]]; then
  preset=${2:?run.sh: --preset needs a name: release, debug, asan or tsan}
  shift 2
fi
case $preset in
  release | debug | asan | tsan) ;;
  *)
    echo "run.sh: preset '$preset' is unknown; it is release, debug, asan or tsan" >&2
    exit 2
    ;;
esac

# A test that ctest had to kill leaves its lab. Those of tests that run right now (another build's) are spared: the
# names hold the pid of the test's process.
take_leftover_labs_down() {
  local lab
  for lab in {/run/foldcast-lab,"/tmp/foldcast-lab-$EUID","${XDG_RUNTIME_DIR:-/nonexistent}/foldcast-lab"}/{e2e,test}-*; do
    lab=${lab##*/}
    [[ $lab =~ -([0-9]+)(-[ab])?$ ]] || continue
    [[ -d /proc/${BASH_REMATCH[1]} ]] || "$build/bin/foldcast" lab down --name "$lab" || true
  done
}

cd "$source_directory"
build=build/$preset
tools/install_packages.sh test
cmake --preset "$preset" -DFOLDCAST_WERROR=ON -DFOLDCAST_BUILD_TESTS=ON
cmake --build --preset "$preset"

report=$PWD/$build/tests.xml
rm -f "$report"
code=0
# The skipped cases of a passed program are only in its output, which the report cuts to 1 KiB unless told otherwise.
ctest --test-dir "$build" --output-on-failure --output-junit "$report" --test-output-size-passed 1000000 "$@" || code=$?
take_leftover_labs_down
python3 tests/summary.py "$report" || code=$((code ? code : 1))
exit "$code"
