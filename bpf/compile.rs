//! Compiles BPF programs; a module of the build scripts of `xdp` and `nic`.

use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

/// Compiles sources, and passes the path of each object to the compilation in the environment
/// variable of that name.
pub fn compile(programs: &[(&str, &str)], more_arguments: &[&str]) {
    let has_clang = Command::new("clang").arg("--version").output().is_ok_and(|out| out.status.success());
    assert!(has_clang, "clang, which compiles the BPF programs, is missing: `cargo xtask setup` installs it");
    for header in ["types.h", "nic_rules.h"] {
        println!("cargo:rerun-if-changed=../../bpf/{header}");
    }
    // Where Debian keeps headers of an architecture, which clang does not search for this target.
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let arch_headers = format!("/usr/include/{arch}-linux-gnu");
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arguments = ["-Wall", "-Werror", "-I../../bpf", "-idirafter", &arch_headers];
    for (source, variable) in programs {
        println!("cargo:rerun-if-changed={source}");
        let object = out_dir.join(Path::new(source).with_extension("o").file_name().expect("a file"));
        SkeletonBuilder::new()
            .source(source)
            .obj(&object)
            .clang_args(arguments.iter().chain(more_arguments))
            .build()
            .unwrap_or_else(|error| panic!("{source} does not compile: {error:?}"));
        println!("cargo:rustc-env={variable}={}", object.display());
    }
}
