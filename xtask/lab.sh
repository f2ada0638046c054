# Sourced by the other scripts here: two namespaces with veths between them, the measured program in
# one, the generator in the other, and a cleanup that removes both. Expects `bin`, `seconds` and the
# ends of the cables in `ends`.
id=slf$$
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
    for end in $ends; do
        ip link add "h-$end" netns "$id-out" numrxqueues 1 numtxqueues 1 type veth peer name "s-$end" netns "$id-sw" numrxqueues 1 numtxqueues 1
        for side in "out h" "sw s"; do
            set -- $side
            ip netns exec "$id-$1" sysctl -qw "net.ipv6.conf.$2-$end.disable_ipv6=1"
            ip -n "$id-$1" link set dev "$2-$end" up
        done
    done
}

# Mpps from h-in to h-out, in `mpps`: no subshell, so that the exit trap finds what it has to end.
blast() {
    mpps=$(ip netns exec "$id-out" "$bin/examples/blast" --interface h-in --sink h-out --to 1 --seconds "$seconds" --core 1 |
        sed -n 's/.*arrived [0-9]* (\([0-9.]*\) Mpps.*/\1/p')
}

# Waits until the measured program has this number of ports.
until_attached() {
    until [ "$(ip -n "$id-sw" link show | grep -c 'prog/xdp')" = "$1" ]; do
        kill -0 "$daemon" || { echo "it ended: $(cat "$work/log")" >&2; exit 1; }
    done
}

stop() {
    for process in $beside $daemon; do kill -TERM "$process" 2>/dev/null || true; done
    for process in $beside $daemon; do wait "$process" || true; done
    daemon= beside=
}

# The median of a column of the rates.
median() { awk -v column="$1" '{ print $column }' "$work/rates" | sort -n | sed -n "$(((pairs + 1) / 2))p"; }
