//! Whether Prebake can work well here: each check a line, with what to do about it.

mod checks;
mod unstable;

use crate::Outcome;
use prebake_client::Folder;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to check.
#[derive(clap::Args)]
pub struct Arguments {
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Run a Python script twice under different hash seeds, and name the part of its pipelines whose identity differs.
    #[arg(long, requires = "command")]
    unstable: bool,
    /// The interpreter and the script: python train.py --epochs 1.
    #[arg(last = true)]
    command: Vec<String>,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, but worse than it could.
    Warn,
    /// It does not work.
    Fail,
}

/// One check's result.
#[derive(Serialize)]
pub struct Finding {
    /// What was looked at; stable.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if nothing.
    pub fix: String,
}

/// All findings, as JSON.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    folder: PathBuf,
    findings: Vec<Finding>,
}

impl Finding {
    /// Nothing to do.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, found, "")
    }

    /// Works, and could work better.
    pub fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Level::Warn, found, fix)
    }

    /// Does not work.
    pub fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Level::Fail, found, fix)
    }

    fn new(check: &'static str, level: Level, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            check,
            level,
            found: found.into(),
            fix: fix.into(),
        }
    }
}

/// Prints all findings; exits with 1 if a check fails.
pub fn doctor(dir: Option<&Path>, arguments: Arguments) -> Outcome {
    let folder = Folder::resolve(dir).map_err(|e| e.to_string())?;
    let findings = match arguments.unstable {
        true => unstable::find(&arguments.command)?,
        false => checks::all(&folder),
    };
    let failed = findings.iter().any(|f| f.level == Level::Fail);
    if arguments.json {
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            folder: folder.path().to_path_buf(),
            findings,
        };
        say!("{}", serde_json::to_string(&report).map_err(|e| e.to_string())?);
    } else {
        findings.iter().for_each(print);
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn print(finding: &Finding) {
    let level = match finding.level {
        Level::Ok => "ok",
        Level::Warn => "warn",
        Level::Fail => "fail",
    };
    say!("{level:<5} {:<12} {}", finding.check, finding.found);
    if !finding.fix.is_empty() {
        say!("      {:<12} -> {}", "", finding.fix);
    }
}
