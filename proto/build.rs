//! Compiles the .proto files without a system protoc.
use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["graph", "cache", "data"].map(|f| format!("proto/prebake/v1/{f}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    let encoded = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(&encoded, descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".prebake.v1")
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .register_descriptors(&fs::read(&encoded)?)?
        .build(&[".prebake.v1"])?;
    Ok(())
}
