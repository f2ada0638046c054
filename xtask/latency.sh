#!/usr/bin/env bash
# One-way latency of 64-byte frames at 39,000 and 156,000 a second, through the daemon, Open vSwitch
# on AF_XDP and the Linux bridge, in turn on the same kind of veths; `sluice host` measures at both
# ends. Prints p50 and p99 in microseconds, and the medians.
# Open vSwitch is Debian's openvswitch-switch; without it that column stays empty.
#
# The cores of the hosts change the results (docs/performance.md, "Latency"): with HOSTS=1 both are
# on core 1, and the forwarder has core 0 to itself.
#
#   cargo build --release --bins && sudo xtask/latency.sh [RUNS] [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-5} seconds=${2:-5}
bin=${BIN:-target/release}
hosts=${HOSTS:-0-$(($(nproc --all) - 1))}
ends="in out"
pairs=$runs
. xtask/lab.sh

daemon() {
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port.in]' 'interface = "s-in"' \
        '[port.out]' 'interface = "s-out"' >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until_attached 2
}
openvswitch() {
    command -v ovs-vswitchd >/dev/null || return 1
    export OVS_RUNDIR=$work/ovs OVS_DBDIR=$work/ovs OVS_LOGDIR=$work/ovs
    rm -rf "$work/ovs"
    mkdir "$work/ovs"
    ovsdb-tool create "$work/ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ip netns exec "$id-sw" ovsdb-server "$work/ovs/conf.db" --remote="punix:$work/ovs/db.sock" >"$work/log" 2>&1 &
    beside=$!
    until [ -S "$work/ovs/db.sock" ]; do kill -0 "$beside"; done
    ovs-vsctl --no-wait --db="unix:$work/ovs/db.sock" init -- set Open_vSwitch . other_config:pmd-cpu-mask=1
    ip netns exec "$id-sw" ovs-vswitchd "unix:$work/ovs/db.sock" --no-chdir >"$work/log" 2>&1 &
    daemon=$!
    ovs-vsctl --timeout=20 --db="unix:$work/ovs/db.sock" add-br "br$$" -- set bridge "br$$" datapath_type=netdev \
        -- add-port "br$$" s-in -- set interface s-in type=afxdp -- add-port "br$$" s-out -- set interface s-out type=afxdp
    until_attached 2
}
bridge() {
    ip -n "$id-sw" link add bridge type bridge
    ip -n "$id-sw" link set dev s-in master bridge
    ip -n "$id-sw" link set dev s-out master bridge
    ip -n "$id-sw" link set dev bridge up
}
# p50 and p99 in microseconds at a rate in frames a second.
measure() {
    local to rate=$(($1 * 512))
    to=$(ip netns exec "$id-out" cat /sys/class/net/h-out/address)
    ip netns exec "$id-out" taskset --cpu-list "$hosts" "$bin/sluice" host --interface h-out --duration "$((seconds + 2))s" \
        --interval 0 --json >"$work/seen" 2>/dev/null &
    local receiver=$!
    ip netns exec "$id-out" taskset --cpu-list "$hosts" "$bin/sluice" host --interface h-in --duration "${seconds}s" --interval 0 \
        --flow "to=$to,priority=3,size=64,rate=$rate" --json >"$work/sent" 2>/dev/null
    wait "$receiver"
    sed -n 's/.*"latency_ns": *{"p50": *\([0-9]*\),.*"p99": *\([0-9]*\),.*/\1 \2/p' "$work/seen" |
        awk '{ printf "%.0f %.0f", $1 / 1000, $2 / 1000 }'
}
echo "forwarder, frames a second, p50, p99 (µs)"
for _ in $(seq "$runs"); do
    for of in daemon openvswitch bridge; do
        net
        $of || continue
        sleep 2 # a loop that has just begun does not know yet whether it is alone
        for rate in 39000 156000; do
            echo "$of $rate $(measure $rate)" | tee -a "$work/all"
        done
        stop
    done
done
echo "medians"
for of in daemon openvswitch bridge; do
    for rate in 39000 156000; do
        grep "^$of $rate " "$work/all" >"$work/rates" || continue
        echo "$of $rate $(median 3) $(median 4)"
    done
done
