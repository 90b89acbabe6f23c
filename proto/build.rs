//! Compiles the .proto files without a system protoc.
use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

/// Read by people's scripts: plain JSON numbers and every field, where protobuf JSON has 64-bit numbers
/// as strings and leaves out zeros.
const REPORTS: [&str; 15] = [
    "StatusResponse",
    "Totals",
    "CollectionStatus",
    "JobStatus",
    "Refusal",
    "Quarantined",
    "ClearResponse",
    "ExplainResponse",
    "Explanation",
    "Cause",
    "Nearest",
    "ExplainedStep",
    "Reuse",
    "DiagnoseResponse",
    "Unstable",
];

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["graph", "explain", "cache", "data"].map(|f| format!("proto/prebake/v1/{f}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    let encoded = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(&encoded, descriptors.encode_to_vec())?;
    let mut messages = tonic_prost_build::configure().bytes(".prebake.v1");
    let mut json = pbjson_build::Builder::new();
    for report in REPORTS {
        let path = format!(".prebake.v1.{report}");
        messages = messages.type_attribute(&path, "#[derive(serde::Serialize)]");
        json.exclude([path]);
    }
    messages.compile_fds(descriptors)?;
    json.register_descriptors(&fs::read(&encoded)?)?
        .build(&[".prebake.v1"])?;
    Ok(())
}
