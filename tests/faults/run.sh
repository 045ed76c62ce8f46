#!/usr/bin/env bash
# The fault matrix, one file a row: tests/faults/run.sh [--programs DIRECTORY] [ROW...]. Without rows all of them.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export FAULTS_PROGRAMS=$here/../../build/release/bin
if [[ ${1:-} == --programs ]]; then
  FAULTS_PROGRAMS=${2:?run.sh: --programs needs a directory}
  shift 2
fi
FAULTS_PROGRAMS=$(cd "$FAULTS_PROGRAMS" 2>/dev/null && pwd) && [[ -x $FAULTS_PROGRAMS/foldcast ]] || {
  echo "run.sh: there is no foldcast to test: build it, or say where with --programs" >&2
  exit 2
}
rows=("$@")
[[ ${#rows[@]} -gt 0 ]] || mapfile -t rows < <(cd "$here" && ls F*.sh | sed 's/\.sh$//')
passed=0 failed=0 skipped=0
for row in "${rows[@]}"; do
  [[ -x $here/$row.sh ]] || { echo "run.sh: there is no row $row; there are: $(cd "$here" && ls F*.sh | sed 's/\.sh$//' | tr '\n' ' ')" >&2; exit 2; }
  begin=$SECONDS
  "$here/$row.sh"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
  echo "  $row: $((SECONDS - begin)) s"
done
echo "faults: $passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
