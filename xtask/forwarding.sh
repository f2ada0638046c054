#!/usr/bin/env bash
# The forwarding rate of 64-byte frames (60 without FCS) on one core: a bare AF_XDP forwarder and
# the daemon, alternating, on the same kind of veths, with generator and sink together on another
# core. Prints Mpps of each pair and the medians.
#
#   cargo build --release --bins --examples && sudo xtask/forwarding.sh [PAIRS] [SECONDS] [FRAMES POSTED]
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} seconds=${2:-5} posted=${3:-512}
bin=target/release
ends="in out"
. xtask/lab.sh

bare() {
    net
    ip netns exec "$id-sw" "$bin/examples/forwarder" --interface s-in --interface s-out --core 0 --posted "$posted" \
        --seconds $((seconds + 60)) >"$work/log" 2>&1 &
    daemon=$!
    until_attached 2
    blast
    stop
}
switch() {
    net
    printf '%s\n' '[control]' "socket = \"$work/s\"" '[dataplane]' 'cores = [0]' '[port.in]' 'interface = "s-in"' \
        '[port.out]' 'interface = "s-out"' >"$work/config.toml"
    ip netns exec "$id-sw" "$bin/sluiced" --config "$work/config.toml" >"$work/log" 2>&1 &
    daemon=$!
    until_attached 2
    blast
    stop
}
echo "bare forwarder, daemon (Mpps)"
for _ in $(seq "$pairs"); do
    bare
    bare=$mpps
    switch
    echo "$bare $mpps" | tee -a "$work/rates"
done
echo "median: bare $(median 1), daemon $(median 2)"
