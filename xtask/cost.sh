#!/usr/bin/env bash
# The cost of a feature in the forwarding rate of 64-byte frames (60 without FCS): alternating runs
# without it and with it, the daemon on one core, generator and sink on another. Prints Mpps of each
# pair and the medians of both and of their ratios.
#
#   cargo build --release --bins --examples && sudo xtask/cost.sh WHAT [PAIRS] [SECONDS]
#
# WHAT is one of
#   storm      a host that sends PFC as fast as it can into a third port; without it the same host
#              is not plugged in, so that its own work is in both rates
#   telemetry  every path, once a second, to a collector on this machine, which runs in both cases
#   recording  [recorder] always = true
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?storm, telemetry or recording} pairs=${2:-5} seconds=${3:-5}
bin=${BIN:-target/release}
ends="in out storm none"
. xtask/lab.sh

# The rate without the feature, or with it.
rate() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port-defaults.pfc]' 'mode = "on"' \
        'no_drop = [3]' '[pfc.watchdog]' 'priority.3.interval = 1' '[port.in]' 'interface = "s-in"' '[port.out]' \
        'interface = "s-out"' '[port.storm]' 'interface = "s-storm"' >"$work/config.toml"
    case $what-$1 in
    recording-with) printf '[recorder]\nalways = true\n' >>"$work/config.toml" ;;
    telemetry-with)
        # For each path its kind and then its name, on separate lines.
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
    until_attached 3
    if [ "$what" = storm ]; then
        [ "$1" = with ] && to=h-storm || to=h-none
        ip netns exec "$id-out" "$bin/sluice" host --interface "$to" --core 1 --speed 10G --no-drop 3 --storm 3 \
            --duration $((seconds + 60))s >"$work/beside" 2>&1 &
        beside=$!
    fi
    blast
    stop
}
echo "without, with (Mpps), ratio"
for _ in $(seq "$pairs"); do
    rate without
    without=$mpps
    rate with
    with=$mpps
    echo "$without $with $(awk "BEGIN { printf \"%.3f\", $with / $without }")" | tee -a "$work/rates"
done
echo "median: without $(median 1), with $(median 2), ratio $(median 3)"
