//! Compiles the BPF programs: those of `sluice nic`, and two for the tests of their parts.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    let programs = [
        ("../../bpf/nic.bpf.c", "NIC_BPF"),
        ("tests/rules.bpf.c", "NIC_RULES_BPF"),
        ("tests/ingress.bpf.c", "NIC_INGRESS_BPF"),
    ];
    // Version 3 of the instruction set has the atomic operations that return a value.
    compile::compile(&programs, &["-mcpu=v3"]);
}
