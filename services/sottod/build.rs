//! Generates the messages and the service of `proto/peer.proto`, without a system protoc.

use std::error::Error;

const SCHEMA: &str = "peer.proto";
const DIRECTORY: &str = "proto";

/// Messages that carry what people bring do not print themselves.
const UNPRINTABLE: [&str; 5] = [
    ".sotto.peer.v1.AppendRequest",
    ".sotto.peer.v1.SnapshotChunk",
    ".sotto.peer.v1.DepositsRequest",
    ".sotto.peer.v1.AccountDeposit",
    ".sotto.peer.v1.RegisterRequest",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DIRECTORY}/{SCHEMA}");
    let descriptors = protox::compile([SCHEMA], [DIRECTORY])?;
    tonic_prost_build::configure()
        .bytes(".")
        .skip_debug(UNPRINTABLE)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
