//! Compiles the control API with a pure-Rust protobuf compiler, so that no `protoc` need be installed.

fn main() {
    let proto = "../../proto/sluice/v1/control.proto";
    println!("cargo::rerun-if-changed={proto}");
    let files = protox::compile([proto], ["../../proto"]).expect("control.proto compiles");
    tonic_prost_build::configure().compile_fds(files).expect("control.proto generates");
}
