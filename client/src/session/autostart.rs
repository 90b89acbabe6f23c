//! Starting a daemon for the user when none runs.

use crate::clock::Clock;
use crate::connection::folder::Folder;
use crate::error::{Code, Error, Result};
use crate::session::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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
/// Ctrl-C does not reach it, and says its number. It writes to the log, which is the shell's stderr.
const DETACH: &str = r#""$@" </dev/null >&2 & echo $!"#;

/// One that ended may have found the folder taken, by a daemon that will listen soon and whose lock is not shown here (in
/// another container): so long it is waited for in any case.
const GRACE: Duration = Duration::from_secs(1);

/// A daemon that was started.
pub(crate) enum Starting {
    /// It ended already.
    Ended,
    /// It may run: that cannot be asked here.
    Unknown,
    /// It was there.
    Process(OwnedFd),
}

impl Starting {
    /// Of what the shell says.
    fn of(said: &[u8]) -> Self {
        let number = std::str::from_utf8(said)
            .ok()
            .and_then(|said| said.trim().parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else {
            return Self::Unknown;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Self::Process(process),
            Err(Errno::SRCH) => Self::Ended,
            // An old kernel, or a container that forbids it.
            Err(_) => Self::Unknown,
        }
    }

    /// Whether it may run.
    fn may_run(&self) -> bool {
        match self {
            Self::Ended => false,
            Self::Unknown => true,
            Self::Process(process) => {
                let mut ended = [PollFd::new(process, PollFlags::IN)];
                !matches!(poll(&mut ended, Some(&Timespec::default())), Ok(1..))
            }
        }
    }
}

/// Starts a daemon on the folder. If another process does the same, one of the two daemons finds the folder taken and
/// ends.
///
/// # Errors
/// `daemon-absent`, saying what is missing.
pub(crate) fn start(folder: &Folder, hint: Option<&Path>) -> Result<Starting> {
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
    let log = log(folder).map_err(|e| failed(e.to_string()))?;
    let started = Command::new("/bin/sh")
        .args(["-c", DETACH, "sh"])
        .arg(&binary)
        .arg("--dir")
        .arg(path)
        .args(["--idle-exit", &IDLE_EXIT_SECONDS.to_string()])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stderr(log)
        .output();
    match started {
        Ok(Output { status, stdout, .. }) if status.success() => Ok(Starting::of(&stdout)),
        Ok(Output { status, .. }) => Err(failed(format!("cannot start {}: {status}", binary.display()))),
        Err(e) => Err(failed(format!("cannot start {}: {e}", binary.display()))),
    }
}

/// The daemon's log, in a folder of this user. Nothing is written to what somebody else put there, nor by another name of a
/// file, and no pipe is waited for.
fn log(folder: &Folder) -> io::Result<File> {
    let not_used = |path: &Path, why: &str| {
        let advice = "remove it, or set PREBAKE_DIR to another folder";
        io::Error::other(format!("{} is not used: {why}; {advice}", path.display()))
    };
    let me = geteuid().as_raw();
    if fs::metadata(folder.path())?.uid() != me {
        return Err(not_used(folder.path(), "it belongs to another user"));
    }
    let path = folder.log();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(&path)
        .map_err(|e| not_used(&path, &e.to_string()))?;
    let found = log.metadata()?;
    if !found.is_file() || found.uid() != me || found.nlink() > 1 {
        return Err(not_used(&path, "it is no file of this user alone"));
    }
    Ok(log)
}

/// Connects as soon as the daemon listens. One that has ended, while no other has the folder, is not waited for.
///
/// # Errors
/// `daemon-absent` if it does not in time; other errors of connecting at once.
pub(crate) fn wait(
    folder: &Folder,
    starting: &Starting,
    clock: &dyn Clock,
    connect: impl Fn() -> Result<Session>,
) -> Result<Session> {
    let begun = clock.elapsed();
    let deadline = begun + START;
    loop {
        // Asked before: a daemon that gives the folder up after this answers now.
        let is_early = clock.elapsed() < begun + GRACE;
        let may_listen = starting.may_run() || folder.is_taken() || is_early;
        match connect() {
            Err(e) if e.code() == Code::DaemonAbsent && may_listen && clock.elapsed() < deadline => {
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
