//! Compiles the BPF programs: the one that every port runs, and one for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let has_clang = Command::new("clang").arg("--version").output().is_ok_and(|out| out.status.success());
    assert!(has_clang, "clang, which compiles the BPF programs, is missing: `cargo xtask setup` installs it");

    println!("cargo:rerun-if-changed=../../bpf/types.h");
    compile("../../bpf/sluice.bpf.c", "SLUICE_BPF");
    compile("tests/vlan_push.bpf.c", "VLAN_PUSH_BPF");
}

/// Compiles `source` and passes the object's path to the compilation in the environment variable
/// `name`.
fn compile(source: &str, name: &str) {
    println!("cargo:rerun-if-changed={source}");
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = out_dir.join(Path::new(source).with_extension("o").file_name().expect("a file"));
    SkeletonBuilder::new()
        .source(source)
        .obj(&object)
        .clang_args(["-Wall", "-Werror", "-I../../bpf"])
        .build()
        .unwrap_or_else(|error| panic!("{source} does not compile: {error:?}"));
    println!("cargo:rustc-env={name}={}", object.display());
}
