//! Digest and differences of graphs in files.

use crate::Outcome;
use prebake_fingerprint::Graph;
use prebake_proto::v1;
use std::{fs, path::Path, process::ExitCode};

/// A graph of the most operators and parameters that are allowed is smaller than this as JSON.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Prints a graph's subgraph digest.
pub fn fingerprint(file: &Path) -> Outcome {
    say!("{}", read(file)?.digest());
    Ok(ExitCode::SUCCESS)
}

/// Prints the differences of two graphs, first difference first.
pub fn diff(a: &Path, b: &Path) -> Outcome {
    let differences = prebake_fingerprint::diff(&read(a)?, &read(b)?);
    for difference in &differences {
        say!("{difference}");
    }
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

fn read(file: &Path) -> Result<Graph, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let len = fs::metadata(file).map_err(|e| failed(&e))?.len();
    if len > FILE_BYTES_MAX {
        return Err(failed(&format_args!(
            "{len} bytes are no graph: at most {FILE_BYTES_MAX} are read"
        )));
    }
    let text = fs::read(file).map_err(|e| failed(&e))?;
    let graph: v1::Graph = serde_json::from_slice(&text).map_err(|e| failed(&e))?;
    Graph::try_from(graph).map_err(|e| failed(&format_args!("{e} [{}]", e.code())))
}
