//! Compiles the BPF programs: those of `sluice nic`, and two for the tests of their parts.

use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let has_clang = Command::new("clang").arg("--version").output().is_ok_and(|out| out.status.success());
    assert!(has_clang, "clang, which compiles the BPF programs, is missing: `cargo xtask setup` installs it");

    println!("cargo:rerun-if-changed=../../bpf/types.h");
    println!("cargo:rerun-if-changed=../../bpf/nic_rules.h");
    compile("../../bpf/nic.bpf.c", "NIC_BPF");
    compile("tests/rules.bpf.c", "NIC_RULES_BPF");
    compile("tests/ingress.bpf.c", "NIC_INGRESS_BPF");
}

/// Compiles `source` and sets the compile-time environment variable `name` to the object's path.
fn compile(source: &str, name: &str) {
    println!("cargo:rerun-if-changed={source}");
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = out_dir.join(Path::new(source).with_extension("o").file_name().expect("a file"));
    SkeletonBuilder::new()
        .source(source)
        .obj(&object)
        // Version 3 of the instruction set has the atomic operations that return a value.
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I../../bpf"])
        .build()
        .unwrap_or_else(|error| panic!("{source} does not compile: {error:?}"));
    println!("cargo:rustc-env={name}={}", object.display());
}
