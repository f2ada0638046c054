//! Compiles the BPF programs that tests attach to interfaces: the machine that runs the tests may
//! have no compiler (`cargo xtask vm`).

use std::path::PathBuf;
use std::process::Command;

/// Files of `bpf/`, and the environment variable of the build that has the path of the object.
const PROGRAMS: [(&str, &str); 2] = [("vlan_push", "VLAN_PUSH_BPF"), ("xdp_pass", "XDP_PASS_BPF")];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, variable) in PROGRAMS {
        let (source, object) = (format!("bpf/{name}.c"), out.join(format!("{name}.o")));
        println!("cargo:rerun-if-changed={source}");
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-Wall", "-Werror", "-Wno-unused-parameter", "-target", "bpf", "-c"]);
        let status = clang.args([&source, "-o"]).arg(&object).status();
        let status = status.expect("clang, which `cargo xtask setup` installs");
        assert!(status.success(), "{source} does not compile");
        println!("cargo:rustc-env={variable}={}", object.display());
    }
}
