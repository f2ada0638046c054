#!/usr/bin/env bash
# What a host that sends PFC as fast as it can (`sluice host --storm`) costs the forwarding rate of two other ports: in turn it is
# plugged into a third port of the switch, and into nothing, so that its own work is in both rates. 64-byte frames (60 without
# FCS), the daemon on one core, generator, sink and storm on another. Prints Mpps of each pair, their medians, and the PFC
# frames that the switch took in.
#
#   cargo build --release --bins --examples && sudo xtask/storm-cost.sh [PAIRS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5}
bin=target/release
id=slc$$
work=$(mktemp -d)
daemon= storm=
clean() {
    [ -z "$storm" ] || kill -9 "$storm" 2>/dev/null || true
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    ip netns del "$id-out" 2>/dev/null || true
    ip netns del "$id-sw" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

# Fresh namespaces for every run: nothing of one run is left for the next.
net() {
    ip netns del "$id-out" 2>/dev/null || true
    ip netns del "$id-sw" 2>/dev/null || true
    ip netns add "$id-out"
    ip netns add "$id-sw"
    for end in in out storm none; do
        ip link add "h-$end" netns "$id-out" numrxqueues 1 numtxqueues 1 type veth peer name "s-$end" netns "$id-sw" numrxqueues 1 numtxqueues 1
        for side in "out h" "sw s"; do
            set -- $side
            ip netns exec "$id-$1" sysctl -qw "net.ipv6.conf.$2-$end.disable_ipv6=1"
            ip -n "$id-$1" link set "$2-$end" up
        done
    done
}

# The rate with the storm at this end: storm, a port of the switch, or none.
rate() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port-defaults.pfc]' 'mode = "on"' \
        'no_drop = [3]' '[pfc.watchdog]' 'priority.3.interval = 1' '[port.in]' 'interface = "s-in"' '[port.out]' \
        'interface = "s-out"' '[port.storm]' 'interface = "s-storm"' >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until [ "$(ip -n "$id-sw" link show | grep -c 'prog/xdp')" = 3 ]; do
        kill -0 "$daemon" || { echo "it ended: $(cat "$work/log")" >&2; exit 1; }
    done
    ip netns exec "$id-out" "$bin/sluice" host --interface "h-$1" --core 1 --speed 10G --no-drop 3 --storm 3 \
        --duration $((seconds + 60))s >"$work/storm" 2>&1 &
    storm=$!
    ip netns exec "$id-out" "$bin/examples/blast" --interface h-in --sink h-out --seconds "$seconds" --core 1 |
        sed -n 's/.*arrived [0-9]* (\([0-9.]*\) Mpps.*/\1/p'
    "$bin/sluice" show pfc --json --socket "$work/s" |
        grep -o '"pfc_received":{"frames":[0-9]*' | cut -d: -f3 | sort -n | tail -1 >"$work/heard"
    kill -TERM "$storm" "$daemon"
    wait "$storm" "$daemon" || true
    storm= daemon=
}
echo "storm elsewhere, storm into the switch (Mpps), PFC frames a second that the switch took in"
for _ in $(seq "$pairs"); do
    without=$(rate none) with=$(rate storm)
    echo "$without $with $(($(cat "$work/heard") / seconds))" | tee -a "$work/rates"
done
median() { awk -v column="$1" '{ print $column }' "$work/rates" | sort -n | sed -n "$(((pairs + 1) / 2))p"; }
echo "median: elsewhere $(median 1), into the switch $(median 2)"
