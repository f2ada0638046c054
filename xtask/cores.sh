#!/usr/bin/env bash
# The forwarding rate of 64-byte frames (60 without FCS) with one loop and with two: two senders and
# two receivers, each pair a separate generator and sink that runs wherever the kernel schedules it,
# on a daemon with cores = [0] and with cores = [0, 1], alternating.
# At most WINDOW frames of a pair are in flight at any time, so generators send what the loops take,
# and leave them the rest of the cores; with 0 they send without limit.
# Prints Mpps of each pair of runs, their ratio, and the medians of all three. At the end, for
# either setting, what the CPU time was spent on, by `perf record` if that is installed.
#
#   cargo build --release --bins --examples && sudo xtask/cores.sh [PAIRS] [SECONDS] [PLACES] [WINDOW]
#
# PLACES selects what two loops serve: "along" (default), each loop serves both ports of one pair;
# "across", frames arrive on one loop and leave by the other.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5} places=${3:-along} window=${4:-1024}
bin=${BIN:-target/release}
ends="in1 out1 in2 out2"
. xtask/lab.sh

# The port of one end, on this one of several cores, with an endpoint behind it.
port() {
    printf '%s\n' "[port.$1]" "interface = \"s-$1\"" "static_addresses = [\"$3\"]"
    [ "$cores" = 0 ] || echo "core = $2"
}
config() {
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' "cores = [$cores]"
    [ "$places" = along ] && second=0 || second=1
    port in1 0 02:00:00:00:00:01
    port out1 $second 02:00:00:00:01:01
    port in2 1 02:00:00:00:00:02
    port out2 $((1 - second)) 02:00:00:00:01:02
}
# Mpps of both pairs together, in `mpps`, with these cores.
rate() {
    cores=$1
    net
    config >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until_attached 4
    for pair in 1 2; do
        ip netns exec "$id-out" "$bin/examples/blast" --interface "h-in$pair" --sink "h-out$pair" --to $pair \
            --seconds "$seconds" $([ "$window" = 0 ] || echo --window "$window") >"$work/blast$pair" 2>&1 &
        beside="$beside $!"
    done
    [ -z "${profile:-}" ] || perf record -q -a -g -e cpu-clock -F 499 -o "$profile" sleep $((seconds - 1)) >/dev/null 2>&1 || true
    for process in $beside; do wait "$process" || { cat "$work"/blast? >&2; exit 1; }; done
    beside=
    stop
    mpps=$(sed -n 's/.*arrived [0-9]* (\([0-9.]*\) Mpps.*/\1/p' "$work/blast1" "$work/blast2" | awk '{ sum += $1 } END { printf "%.3f", sum }')
}

echo "one loop, two loops (Mpps), ratio"
for pair in $(seq "$pairs"); do
    # The order alternates, so that neither setting gains from being first.
    if [ $((pair % 2)) = 1 ]; then rate 0; one=$mpps; rate 0,1; two=$mpps; else rate 0,1; two=$mpps; rate 0; one=$mpps; fi
    echo "$one $two $(awk "BEGIN { printf \"%.3f\", $two / $one }")" | tee -a "$work/rates"
done
echo "median: one loop $(median 1), two loops $(median 2), ratio $(median 3)"

command -v perf >/dev/null || exit 0
# The share of CPU time by thread, without and with the kernel's softirq, which carries frames from
# veth to veth in the context of any thread.
shares() {
    profile=$work/perf.data
    rate "$1"
    echo "cores = [$1], $mpps Mpps: % of the time of all cores"
    perf script -i "$profile" -F comm,ip,sym 2>/dev/null | awk -v RS= '
        { split($0, lines, "\n"); sub(/ +$/, "", lines[1]); all++
          kind = /handle_softirqs|__do_softirq/ ? "in softirq" : lines[1] == "swapper" ? "idle" : "itself"
          shares[lines[1] " " kind]++; if (kind == "in softirq") soft++ }
        END { for (what in shares) if (shares[what] >= all / 200) printf "%6.1f  %s\n", 100 * shares[what] / all, what
              printf "%6.1f  all softirq\n", 100 * soft / all }' | sort -rn
}
for which in 0 0,1; do shares $which; done
