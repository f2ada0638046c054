//! Compiles the BPF programs: the one that every port runs, and one for a test.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    let programs = [("../../bpf/sluice.bpf.c", "SLUICE_BPF"), ("tests/vlan_push.bpf.c", "VLAN_PUSH_BPF")];
    compile::compile(&programs, &[]);
}
