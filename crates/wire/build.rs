//! Generates the messages and services of `proto/sotto.proto`, without a system protoc.

use std::error::Error;

const SCHEMA: &str = "sotto.proto";
const DIRECTORY: &str = "proto";

/// Messages that carry a session or a person's deposit do not print themselves.
const UNPRINTABLE: [&str; 7] = [
    ".sotto.v1.RegisterResponse",
    ".sotto.v1.KeysChunk",
    ".sotto.v1.WatchRequest",
    ".sotto.v1.DepositRequest",
    ".sotto.v1.MappingRequest",
    ".sotto.v1.QueryChunk",
    ".sotto.v1.ManifestsRequest",
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
