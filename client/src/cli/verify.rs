//! `prebake verify`: a Python job whose hits are computed again and compared; and the end of a quarantine.

use crate::{Outcome, status::control};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead, BufReader, Seek, Write},
    os::fd::AsRawFd,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

/// What the Python shim reads: the share of hits to compute again, and a file to append a line to for each.
const SHARE: &str = "PREBAKE_VERIFY";
const LOG: &str = "PREBAKE_VERIFY_LOG";

/// What was found of one hit.
#[derive(Deserialize)]
struct Line {
    /// "same", "different" or "failed".
    outcome: String,
    /// In words, unless it is the same.
    #[serde(default)]
    told: String,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// Share of the hits that are computed again, from 0 to 1.
    #[arg(long, default_value = "1.0", value_parser = share)]
    share: f64,
    /// End the quarantine of the subgraph of this digest (its first digits), and of what is downstream of it.
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["share", "command"])]
    clear: Option<String>,
    /// The job and its arguments.
    #[arg(
        required_unless_present = "clear",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

/// Runs the job. The exit code is the job's if it failed, else 1 if a hit did not reproduce.
pub fn verify(dir: Option<PathBuf>, arguments: &Arguments) -> Outcome {
    if let Some(digest) = &arguments.clear {
        return clear(dir.as_deref(), digest);
    }
    let (program, rest) = arguments.command.split_first().ok_or("which job?")?;
    // A file without a name: nothing is left behind, however this ends.
    let log = memfd_create("prebake-verify", MemfdFlags::CLOEXEC).map_err(|e| format!("a log: {e}"))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), log.as_raw_fd());
    let mut command = Command::new(program);
    command
        .args(rest)
        .env(SHARE, arguments.share.to_string())
        .env(LOG, path);
    if let Some(dir) = &dir {
        command.env("PREBAKE_DIR", dir);
    }
    let status = command.status().map_err(|e| format!("{program}: {e}"))?;
    let reproduced = report(File::from(log))?;
    let code = code(status);
    Ok(match (code, reproduced) {
        (0, false) => ExitCode::FAILURE,
        (code, _) => ExitCode::from(code),
    })
}

/// Prints what was found; whether all that was computed again was the same.
fn report(mut log: File) -> Result<bool, String> {
    log.rewind().map_err(|e| e.to_string())?;
    let (mut verified, mut different, mut failed) = (0_u64, 0_u64, 0_u64);
    let mut told = BTreeSet::new();
    // A line of a process that was killed may be cut off.
    let lines = BufReader::new(log).lines().map_while(Result::ok);
    for line in lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok()) {
        match line.outcome.as_str() {
            "same" => verified += 1,
            "different" => {
                verified += 1;
                different += 1;
            }
            _ => failed += 1,
        }
        if !line.told.is_empty() {
            told.insert(line.told);
        }
    }
    let mut out = format!("prebake: {verified} hits verified, {different} did not reproduce");
    if failed > 0 {
        out += &format!(", {failed} could not be computed again");
    }
    if verified == 0 {
        out += ": nothing was served from the cache (run it again once it is filled), or the job is no Python job";
    }
    for told in told {
        out += &format!("\n  {told}");
    }
    // Whoever closed stderr is told by the exit code.
    let _ = writeln!(std::io::stderr(), "{out}");
    Ok(different == 0)
}

fn clear(dir: Option<&Path>, digest: &str) -> Outcome {
    let cleared = control(dir)?.clear(digest.to_owned());
    let cleared = cleared.map_err(|e| e.to_string())?.cleared;
    for each in &cleared {
        say!("cleared {} ({})", each.pipeline, each.subgraph_digest);
    }
    if cleared.is_empty() {
        say!("no subgraph whose digest begins with {digest} is quarantined: see prebake status");
    }
    Ok(ExitCode::from(u8::from(cleared.is_empty())))
}

/// As a shell reports it: 128 and the signal for a job that was killed.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}
