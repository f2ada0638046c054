//! Compiles the dial-out file with a pure-Rust protobuf compiler. Public collectors disagree about
//! the service's name, and HTTP/2 paths are case-sensitive: the reference collector serves both.

use prost_types::FileDescriptorSet;

fn main() {
    let proto = "../../proto/grpc_dialout.proto";
    println!("cargo::rerun-if-changed={proto}");
    let mut files = protox::compile([proto], ["../../proto"]).expect("grpc_dialout.proto compiles");
    serve_both(&mut files);
    tonic_prost_build::configure()
        .build_client(false) // the client's path is a setting
        .compile_fds(files)
        .expect("grpc_dialout.proto generates");
}

fn serve_both(files: &mut FileDescriptorSet) {
    for file in &mut files.file {
        let mut other = file.service.clone();
        other.iter_mut().for_each(|service| service.name = Some("gRPCDialout".to_owned()));
        file.service.append(&mut other);
        file.source_code_info = None; // it knows nothing of the other
    }
}
