#!/usr/bin/env bash
# The forwarding rate of 64-byte frames (60 without FCS) on one core: a bare AF_XDP forwarder and the daemon, in turn,
# on the same kind of veths, generator and sink together on another core. Prints Mpps of each pair and the medians.
#
#   cargo build --release --bins --examples && sudo xtask/forwarding.sh [PAIRS] [SECONDS] [FRAMES POSTED]
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5} posted=${3:-512}
bin=target/release
id=slf$$
work=$(mktemp -d)
daemon=
clean() {
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
    for end in in out; do
        ip link add "h-$end" netns "$id-out" numrxqueues 1 numtxqueues 1 type veth peer name "s-$end" netns "$id-sw" numrxqueues 1 numtxqueues 1
        for side in "out h" "sw s"; do
            set -- $side
            ip netns exec "$id-$1" sysctl -qw "net.ipv6.conf.$2-$end.disable_ipv6=1"
            ip -n "$id-$1" link set "$2-$end" up
        done
    done
}
blast() {
    ip netns exec "$id-out" "$bin/examples/blast" --interface h-in --sink h-out --seconds "$seconds" --core 1 |
        sed -n 's/.*arrived [0-9]* (\([0-9.]*\) Mpps.*/\1/p'
}
until_attached() {
    until [ "$(ip -n "$id-sw" link show | grep -c 'prog/xdp')" = 2 ]; do
        kill -0 "$daemon" || { echo "it ended: $(cat "$work/log")" >&2; exit 1; }
    done
}
stop() {
    kill -TERM "$daemon"
    wait "$daemon" || true
    daemon=
}
bare() {
    net
    ip netns exec "$id-sw" "$bin/examples/forwarder" --interface s-in --interface s-out --core 0 --posted "$posted" \
        --seconds $((seconds + 60)) >"$work/log" 2>&1 &
    daemon=$!
    until_attached
    blast
    stop
}
switch() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port.in]' 'interface = "s-in"' \
        '[port.out]' 'interface = "s-out"' >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until_attached
    blast
    stop
}
echo "bare forwarder, daemon (Mpps)"
for _ in $(seq "$pairs"); do
    echo "$(bare) $(switch)" | tee -a "$work/rates"
done
median() { awk -v column="$1" '{ print $column }' "$work/rates" | sort -n | sed -n "$(((pairs + 1) / 2))p"; }
echo "median: bare $(median 1), daemon $(median 2)"
