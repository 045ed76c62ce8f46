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

cd "$source_directory"
build=build/$preset
tools/install_packages.sh test
cmake --preset "$preset" -DFOLDCAST_WERROR=ON -DFOLDCAST_BUILD_TESTS=ON
cmake --build --preset "$preset"

report=$PWD/$build/tests.xml
rm -f "$report"
code=0
ctest --test-dir "$build" --output-on-failure --output-junit "$report" "$@" || code=$?
python3 tests/summary.py "$report" || code=$((code ? code : 1))
exit "$code"
