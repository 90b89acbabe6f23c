//! `prebake trace`: what a command reads, as JSON; and the process that watches it.

use crate::Outcome;
use prebake_client::trace::{Request, Traced, serve};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    process::ExitCode,
};

/// What to trace, and where to tell.
#[derive(clap::Args)]
pub struct Arguments {
    /// File for the report: one JSON object.
    #[arg(long)]
    report: PathBuf,
    /// File or folder whose content is known: what is read there is not told (repeat).
    #[arg(short, long = "input", value_name = "PATH")]
    inputs: Vec<PathBuf>,
    /// File or folder the command writes (repeat).
    #[arg(short, long = "output", value_name = "PATH")]
    outputs: Vec<PathBuf>,
    /// Once the command looks for /dev/.prebake-loaded, let it change no file that it did not make, but for temporary ones.
    #[arg(long)]
    trial: bool,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What a tracer is told.
#[derive(clap::Args)]
pub struct TracerArguments {
    #[arg(long)]
    report: i32,
    #[arg(long = "input")]
    inputs: Vec<PathBuf>,
    #[arg(long = "output")]
    outputs: Vec<PathBuf>,
    #[arg(long)]
    trial: bool,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command with our streams. Its exit code is ours, 128 and the signal if it was killed.
pub fn trace(arguments: Arguments) -> Outcome {
    let Arguments {
        report: file,
        inputs,
        outputs,
        trial,
        command,
    } = arguments;
    let program = tracer().map_err(|e| format!("finding this program: {e}"))?;
    let traced = Traced::start(|report| {
        let mut tracer = watched(&program, report, &inputs, &outputs);
        tracer.args(trial.then_some("--trial")).arg("--").args(&command);
        tracer
    });
    let report = traced.and_then(Traced::wait);
    let report = report.map_err(|e| format!("tracing {}: {e}", command[0].display()))?;
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let text = serde_json::to_vec(&report).map_err(|e| e.to_string())?;
    fs::write(&file, text).map_err(failed)?;
    if let Some(error) = report.failed {
        let error = std::io::Error::from_raw_os_error(error);
        return Err(format!("{}: {error}", command[0].display()));
    }
    let code = report.exit.unwrap_or_else(|| 128 + report.signal.unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// This program, which is the tracer too.
pub fn tracer() -> std::io::Result<PathBuf> {
    env::current_exe()
}

/// The command line of a tracer, but for the command.
pub fn watched(program: &Path, report: i32, inputs: &[PathBuf], outputs: &[PathBuf]) -> Command {
    let mut tracer = Command::new(program);
    tracer.args(["tracer", "--report", &report.to_string()]);
    for (option, paths) in [("--input", inputs), ("--output", outputs)] {
        paths.iter().for_each(|path| {
            tracer.arg(option).arg(path);
        });
    }
    tracer
}

/// The tracer's own process.
pub fn serve_tracer(arguments: TracerArguments) -> Outcome {
    let TracerArguments {
        report,
        inputs,
        outputs,
        trial,
        command,
    } = arguments;
    let request = Request {
        report,
        inputs,
        outputs,
        trial,
        command,
    };
    serve(request).map_err(|e| format!("tracing: {e}"))?;
    Ok(ExitCode::SUCCESS)
}
