//! Verbs that become another program.

use crate::Outcome;
use std::{env, os::unix::process::CommandExt, path::Path, process::Command};

/// Becomes the daemon, which lies beside this program or in `PATH`.
pub fn serve(dir: Option<&Path>, arguments: &[String]) -> Outcome {
    let beside = env::current_exe().ok().map(|exe| exe.with_file_name("prebaked"));
    let program = beside
        .filter(|p| p.is_file())
        .unwrap_or_else(|| "prebaked".into());
    let mut command = Command::new(&program);
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    let error = command.args(arguments).exec();
    Err(format!("cannot run {}: {error}", program.display()))
}

/// Becomes the demo, which is Python because that is what users run.
pub fn demo(arguments: &[String]) -> Outcome {
    let python = env::var_os("PREBAKE_PYTHON").unwrap_or_else(|| "python3".into());
    let error = Command::new(&python)
        .args(["-m", "prebake.demo"])
        .args(arguments)
        .exec();
    Err(format!(
        "cannot run {}: {error}; set PREBAKE_PYTHON",
        python.display()
    ))
}
