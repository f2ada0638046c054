#!/usr/bin/env bash
# How long the poll loop stalls on a busy machine, by `dataplane.scheduling`: two hosts send each
# other 64-byte frames of a no-drop priority while a hog keeps each of the cores busy. For each run,
# prints the share of iterations (in millionths) that began 1 ms, 4 ms, 16 ms and more after the
# previous one, the longest stall, the PFC frames sent, the no-drop frames that switch and kernel
# lost, and the frames that arrived.
#
#   cargo build --release --bins && sudo xtask/stalls.sh [RUNS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-3} seconds=${2:-10}
bin=${BIN:-target/release}
ends="in out"
. xtask/lab.sh

# One run with a scheduling setting: prints a line.
run() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' "scheduling = \"$1\"" '[port-defaults.pfc]' \
        'mode = "on"' 'no_drop = [3]' '[port.in]' 'interface = "s-in"' '[port.out]' 'interface = "s-out"' >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until_attached 2
    ip netns exec "$id-out" "$bin/sluice" host --interface h-out --core 1 --no-drop 3 --duration "$((seconds + 4))s" \
        --interval 0 --json >"$work/seen" 2>/dev/null &
    beside=$!
    for core in $(seq 0 $(($(nproc) - 1))); do
        taskset -c "$core" bash -c "while [ \$SECONDS -le $seconds ]; do :; done" &
        beside="$beside $!"
    done
    ip netns exec "$id-out" "$bin/sluice" host --interface h-in --core 1 --no-drop 3 --duration "${seconds}s" --interval 0 \
        --flow "to=$(ip netns exec "$id-out" cat /sys/class/net/h-out/address),priority=3,size=64,rate=100M" --json \
        >"$work/sent" 2>/dev/null
    "$bin/sluice" show counters --socket "$work/s" --json >"$work/counters"
    python3 - "$work" "$1" <<'P'
import json, sys

work, scheduling = sys.argv[1:]
now = json.load(open(f"{work}/counters"))
turns = now["loop_turns_by_time"]
# The first index counts intervals below 1 us, each later one twice as much: index 11 starts at 1
# ms.
late = [f"{sum(turns[place:]) * 1e6 / sum(turns):.1f}" for place in (11, 13, 15)]
xoff = sum(port["pfc_sent"]["xoff_frames"][3] for port in now["ports"])
kernel = ["rx_fill_ring_empty_frames", "rx_ring_full_frames", "rx_dropped_frames"]
lost = sum(group["dropped"]["frames"] for group in now["groups"])
lost += sum(port["kernel_lost_frames"] + sum(port["kernel"][name] for name in kernel) for port in now["ports"])
report = json.loads(open(f"{work}/sent").readlines()[-1])
sent = sum(flow["sent_frames"] for flow in report["sent"])
print(scheduling, *late, f"{now['loop_worst_stall_ns'] / 1e6:.1f} ms", f"{xoff} XOFF", f"{lost} lost", f"{sent} sent")
P
    stop
}
for _ in $(seq "$runs"); do
    for scheduling in short-slices normal fifo; do
        run "$scheduling"
    done
done
