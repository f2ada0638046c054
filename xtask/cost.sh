#!/usr/bin/env bash
# What something costs the forwarding rate of 64-byte frames (60 without FCS): pairs of runs without it and with it, in turn, the
# daemon on one core, generator and sink on another. Prints Mpps of each pair and the medians of both and of their ratios.
#
#   cargo build --release --bins --examples && sudo xtask/cost.sh WHAT [PAIRS] [SECONDS]
#
# WHAT is one of
#   storm      a host that sends PFC as fast as it can into a third port; without it the same host is plugged into nothing, so that
#              its own work is in both rates
#   telemetry  every path, once a second, to a collector on this machine, which runs in either case
#   recording  [recorder] always = true
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?storm, telemetry or recording} pairs=${2:-5} seconds=${3:-5}
bin=${BIN:-target/release}
id=slc$$
work=$(mktemp -d)
daemon= beside=
clean() {
    for process in $beside $daemon; do kill -9 "$process" 2>/dev/null || true; done
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
    ip -n "$id-sw" link set dev lo up
    for end in in out storm none; do
        ip link add "h-$end" netns "$id-out" numrxqueues 1 numtxqueues 1 type veth peer name "s-$end" netns "$id-sw" numrxqueues 1 numtxqueues 1
        for side in "out h" "sw s"; do
            set -- $side
            ip netns exec "$id-$1" sysctl -qw "net.ipv6.conf.$2-$end.disable_ipv6=1"
            ip -n "$id-$1" link set dev "$2-$end" up
        done
    done
}

# The rate without it, or with it.
rate() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port-defaults.pfc]' 'mode = "on"' \
        'no_drop = [3]' '[pfc.watchdog]' 'priority.3.interval = 1' '[port.in]' 'interface = "s-in"' '[port.out]' \
        'interface = "s-out"' '[port.storm]' 'interface = "s-storm"' >"$work/config.toml"
    case $what-$1 in
    recording-with) printf '[recorder]\nalways = true\n' >>"$work/config.toml" ;;
    telemetry-with)
        # Of each path its kind and then its name, a line each.
        periodic=$("$bin/sluice" telemetry paths --json | grep -E '^    "(kind|path)": ' | paste - - |
            sed -n 's/.*"periodic".*"path": \("[^"]*"\).*/\1/p' | paste -sd,)
        printf '%s\n' '[telemetry.sensor-group.all]' "paths = [$periodic]" '[telemetry.destination-group.here]' \
            'collectors = ["127.0.0.1:50050"]' '[telemetry.subscription.A]' \
            'sensors = [{ group = "all", interval_s = 1 }]' 'destinations = ["here"]' >>"$work/config.toml"
        ;;
    esac
    if [ "$what" = telemetry ]; then
        ip netns exec "$id-sw" taskset -c 1 "$bin/sluice" collector --listen 127.0.0.1:50050 --json >"$work/collected" 2>&1 &
        beside=$!
    fi
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until [ "$(ip -n "$id-sw" link show | grep -c 'prog/xdp')" = 3 ]; do
        kill -0 "$daemon" || { echo "it ended: $(cat "$work/log")" >&2; exit 1; }
    done
    if [ "$what" = storm ]; then
        [ "$1" = with ] && to=h-storm || to=h-none
        ip netns exec "$id-out" "$bin/sluice" host --interface "$to" --core 1 --speed 10G --no-drop 3 --storm 3 \
            --duration $((seconds + 60))s >"$work/beside" 2>&1 &
        beside=$!
    fi
    ip netns exec "$id-out" "$bin/examples/blast" --interface h-in --sink h-out --seconds "$seconds" --core 1 |
        sed -n 's/.*arrived [0-9]* (\([0-9.]*\) Mpps.*/\1/p'
    for process in $beside $daemon; do kill -TERM "$process" 2>/dev/null || true; done
    for process in $beside $daemon; do wait "$process" || true; done
    beside= daemon=
}
echo "without, with (Mpps), ratio"
for _ in $(seq "$pairs"); do
    without=$(rate without) with=$(rate with)
    echo "$without $with $(awk "BEGIN { printf \"%.3f\", $with / $without }")" | tee -a "$work/rates"
done
median() { awk -v column="$1" '{ print $column }' "$work/rates" | sort -n | sed -n "$(((pairs + 1) / 2))p"; }
echo "median: without $(median 1), with $(median 2), ratio $(median 3)"
