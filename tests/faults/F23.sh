#!/usr/bin/env bash
# Strangers at every listener: a port scan, a TLS hello, HTTP, random bytes, early ends. The job and its set-up succeed.
source "$(dirname "$0")/common.sh"
export FOLDCAST_PATH=offload
up_t2
foldcast lab exec --name "$lab" node1 -- python3 - >"$work/strangers" 2>&1 <<'PY' &
import os, random, socket, struct, time
words = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(300),
         struct.pack("<Q", 2**63), b"\x00" * 4096]
met, end = 0, time.time() + 8
while time.time() < end:
    for host, ports in (("10.77.255.1", [7000]), ("10.77.0.1", range(1024, 61000, 97)), ("10.77.0.1", store if (store := [
            int(line.split()[1].split(":")[1], 16) for line in open("/proc/net/tcp").readlines()[1:]][:4]) else [])):
        for port in list(ports)[:60]:
            s = socket.socket()
            s.settimeout(0.2)
            try:
                s.connect((host, port))
                s.sendall(random.choice(words) or os.urandom(random.randrange(1, 2000)))
                if random.random() < 0.5:
                    s.recv(100)
                met += 1
            except OSError:
                pass
            finally:
                s.close()
print("met", met)
PY
strangers=$!
start 150 10000
all_right
wait "$strangers"
met=$(sed -n 's/^met //p' "$work/strangers")
[[ ${met:-0} -ge 100 ]] || fail "only ${met:-0} strangers were let in to speak: $(cat "$work/strangers")"
passed "$met strangers"
