//! `prebake`: what a person types.

#[macro_use]
mod output;
mod arguments;
mod chain;
mod command;
mod doctor;
mod explain;
mod graphs;
mod identity;
mod programs;
mod run;
mod status;
mod terminal;
mod trace;
mod verify;

use clap::{Parser, Subcommand};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Computes a preprocessing step once and serves it to every job on this machine.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Folder to meet the daemon in.
    #[arg(long, env = "PREBAKE_DIR", global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the daemon in the foreground; further arguments are its own (see `prebaked --help`).
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a command, or replay what it did the last time on the same inputs.
    Run(arguments::Arguments),
    /// Run a command and write down what it reads, looks for and writes: a diagnostic of `run`.
    Trace(trace::Arguments),
    /// The process that watches a command for `run` and `trace`.
    #[command(hide = true)]
    Tracer(trace::TracerArguments),
    /// Show what was saved, per job and per pipeline.
    Status {
        /// One JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Say why something was computed or not cached. Exits with 0 if there was something to explain, 1 if nothing was
    /// missed, 2 if it cannot be told.
    Explain {
        /// file.py:line of an operator, the first digits of a subgraph digest, or a job's name, pid or session; the last
        /// miss or refusal if it is not given.
        target: Option<String>,
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Run a Python job and compute its hits again, to compare them with what is stored. Exits with the job's code, or 1 if a
    /// hit did not reproduce.
    Verify(verify::Arguments),
    /// Check the daemon, its folder and this machine. Exits with 1 if a check fails.
    Doctor(doctor::Arguments),
    /// Drop what is cheapest to compute again, of all users, until the disk holds no more than so many bytes.
    Gc {
        /// Bytes that may stay: a number, or with K, M, G (powers of 1024). 0 drops everything.
        #[arg(long, value_name = "SIZE")]
        to: Option<String>,
    },
    /// Four jobs sharing one preprocessing; further arguments are the demo's own.
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the digest of a graph.
    Fingerprint {
        /// Protobuf JSON of prebake.v1.Graph.
        file: PathBuf,
    },
    /// Print how two graphs differ. Exits with 1 if they do.
    Diff {
        /// Protobuf JSON of prebake.v1.Graph.
        a: PathBuf,
        /// Protobuf JSON of prebake.v1.Graph.
        b: PathBuf,
    },
}

/// What a verb returns: an exit code, or what to tell the user.
type Outcome = Result<ExitCode, String>;

fn main() -> ExitCode {
    let Cli { dir, verb } = Cli::parse();
    let outcome = match verb {
        Verb::Serve { arguments } => programs::serve(dir.as_deref(), &arguments),
        Verb::Run(arguments) => run::run(dir, arguments),
        Verb::Trace(arguments) => trace::trace(arguments),
        Verb::Tracer(arguments) => trace::serve_tracer(arguments),
        Verb::Status { json } => status::status(dir.as_deref(), json),
        Verb::Explain { target, json } => explain::explain(dir.as_deref(), target, json),
        Verb::Verify(arguments) => verify::verify(dir, &arguments),
        Verb::Doctor(arguments) => doctor::doctor(dir.as_deref(), arguments),
        Verb::Gc { to } => status::gc(dir.as_deref(), to.as_deref()),
        Verb::Demo { arguments } => programs::demo(&arguments),
        Verb::Fingerprint { file } => graphs::fingerprint(&file),
        Verb::Diff { a, b } => graphs::diff(&a, &b),
    };
    outcome.unwrap_or_else(|message| {
        // Without anyone to tell, the exit code still says it.
        let _ = writeln!(io::stderr(), "prebake: {message}");
        ExitCode::from(2)
    })
}
