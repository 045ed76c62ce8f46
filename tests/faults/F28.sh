#!/usr/bin/env bash
# A small, a tiny and a read-only /dev/shm: nothing here lives there.
source "$(dirname "$0")/common.sh"
for options in size=64m size=1m ro,size=1m; do
  start_t1 24 unshare -m sh -c "mount -t tmpfs -o $options tmpfs /dev/shm && exec \"\$@\"" sh
  all_right
done
passed "three of them"
