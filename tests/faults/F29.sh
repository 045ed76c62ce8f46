#!/usr/bin/env bash
# No memory may be locked.
source "$(dirname "$0")/common.sh"
for limit in 0 65536; do
  start_t1 24 prlimit --memlock=$limit
  all_right
done
passed "0 and 64 KiB"
