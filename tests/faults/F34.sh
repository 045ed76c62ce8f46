#!/usr/bin/env bash
# A thousand signals a second, and handlers of the application's own.
source "$(dirname "$0")/common.sh"
export SOAK_SIGNALS=1
up_t2
start 80
at_call 3
pids=$(soak_pids)
python3 - $pids >"$work/sent" 2>/dev/null <<'PY' &
import os, signal, sys, time
pids, sent = [int(p) for p in sys.argv[1:]], 0
while pids:
    for pid in list(pids):
        try:
            os.kill(pid, signal.SIGUSR1)
            sent += 1
        except ProcessLookupError:
            pids.remove(pid)
    time.sleep(0.001)
print(sent)
PY
all_right
wait
sent=$(cat "$work/sent")
grep -q "handlers there" "$work/said" || fail "the handlers are gone"
handled=$(sed -n 's/.*: \([0-9]*\) signals handled.*/\1/p' "$work/said" | head -n 1)
[[ $handled -gt 100 ]] || fail "only $handled signals were handled"
passed "${sent:-?} signals, $handled handled by rank 0"
