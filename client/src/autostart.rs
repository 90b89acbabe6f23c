//! Starting a daemon for the user when none runs.

use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::folder::Folder;
use crate::session::Session;
use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The daemon's binary.
const BINARY: &str = "prebaked";

/// A daemon that a client started ends after so long without one. Longer than the pause between two runs of a script.
const IDLE_EXIT_SECONDS: u32 = 600;

/// How long a daemon may take to listen; it rebuilds its index within this.
const START: Duration = Duration::from_secs(5);

/// Between attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs the daemon as a grandchild, so that it is never a zombie of this process, in a process group of its own, so that
/// Ctrl-C does not reach it. `$0` is the log.
const DETACH: &str = r#"log=$0; "$@" </dev/null >>"$log" 2>&1 &"#;

/// Starts a daemon on the folder. If another process does the same, one of the two daemons finds the folder taken and
/// ends.
///
/// # Errors
/// `daemon-absent`, saying what is missing.
pub(crate) fn start(folder: &Folder, hint: Option<&Path>) -> Result<()> {
    let failed = |what: String| Error::new(Code::DaemonAbsent, what);
    let binary = find(hint).ok_or_else(|| {
        failed(format!(
            "no daemon runs and {BINARY} is not found: set PREBAKE_DAEMON to its path, or start it yourself"
        ))
    })?;
    let path = folder.path();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| failed(format!("cannot make {}: {e}; set PREBAKE_DIR", path.display())))?;
    let status = Command::new("/bin/sh")
        .args(["-c", DETACH])
        .arg(folder.log())
        .arg(&binary)
        .arg("--dir")
        .arg(path)
        .args(["--idle-exit", &IDLE_EXIT_SECONDS.to_string()])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("cannot start {}: {status}", binary.display()))),
        Err(e) => Err(failed(format!("cannot start {}: {e}", binary.display()))),
    }
}

/// Connects as soon as the daemon listens.
///
/// # Errors
/// `daemon-absent` if it does not in time; other errors of connecting at once.
pub(crate) fn wait(
    folder: &Folder,
    clock: &dyn Clock,
    connect: impl Fn() -> Result<Session>,
) -> Result<Session> {
    let deadline = clock.elapsed() + START;
    loop {
        match connect() {
            Err(e) if e.code() == Code::DaemonAbsent && clock.elapsed() < deadline => {
                std::thread::sleep(PAUSE);
            }
            Err(e) if e.code() == Code::DaemonAbsent => {
                return Err(Error::new(
                    Code::DaemonAbsent,
                    format!("the daemon does not start: see {}", folder.log().display()),
                ));
            }
            result => return result,
        }
    }
}

/// `$PREBAKE_DAEMON`, the caller's hint, beside this program, then `PATH`.
fn find(hint: Option<&Path>) -> Option<PathBuf> {
    let named = env::var_os("PREBAKE_DAEMON").filter(|v| !v.is_empty());
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(BINARY)));
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = named
        .map(PathBuf::from)
        .into_iter()
        .chain(hint.map(Path::to_path_buf))
        .chain(beside)
        .chain(env::split_paths(&path).map(|folder| folder.join(BINARY)));
    candidates.into_iter().find(|candidate| candidate.is_file())
}
