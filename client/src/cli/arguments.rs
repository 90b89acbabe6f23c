//! What a user declares of a command.

use std::path::PathBuf;

/// What the user declares.
#[derive(clap::Args)]
pub struct Arguments {
    /// File or folder the command reads (repeat). The program and every file named on the command line count by
    /// themselves.
    #[arg(short, long = "input", value_name = "PATH")]
    pub inputs: Vec<PathBuf>,
    /// File or folder the command writes (repeat): it must hold nothing else.
    #[arg(short, long = "output", value_name = "PATH")]
    pub outputs: Vec<PathBuf>,
    /// Environment variable that counts in any case (repeat). All count but those of terminals and sessions.
    #[arg(short, long = "env", value_name = "NAME")]
    pub environment: Vec<String>,
    /// Environment variable that does not count, or all that begin so: `NAME*` (repeat). The command sees it all the same.
    #[arg(long = "ignore-env", value_name = "NAME")]
    pub ignored: Vec<String>,
    /// Believe what is declared instead of watching what the command reads: its inputs, its program, files named on the
    /// command line and variables of `--env` are all that counts.
    #[arg(long)]
    pub declared_only: bool,
    /// Run it even if its result is there, and compare what it leaves. Exits with 1 if that is not the same; nothing of it is
    /// then kept or replayed until `prebake verify --clear`.
    #[arg(long)]
    pub verify: bool,
    /// Do not say what was counted.
    #[arg(short, long)]
    pub quiet: bool,
    /// The command and its arguments. It gets no standard input.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}
