//! Runs a command: its output passes through as it comes and is kept beside.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};
use std::{
    fmt::Display,
    fs, io,
    io::{Read, Write},
    os::fd::AsFd,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

/// Output kept of a command; a command that prints more is not cached.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What came of a command.
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed, or why that was not kept.
    pub stdout: Result<Vec<u8>, String>,
    /// What it printed on standard error, or why that was not kept.
    pub stderr: Result<Vec<u8>, String>,
    /// CPU time of it and its children.
    pub cpu: Duration,
}

/// Runs a command without standard input: what it would read there is no declared input.
///
/// # Errors
/// If it cannot be started.
pub fn run(command: &[String]) -> io::Result<Ran> {
    let (name, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let before = children_cpu();
    // Nothing is ever written to it: it is closed when the command has ended.
    let (ended, running) = io::pipe()?;
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (status, stdout, stderr) = thread::scope(|scope| {
        let stdout = scope.spawn(|| tee(out, &ended, io::stdout()));
        let stderr = scope.spawn(|| tee(err, &ended, io::stderr()));
        let status = child.wait();
        drop(running);
        let failed = |_| Err("what it printed could not be read".to_owned());
        (
            status,
            stdout.join().unwrap_or_else(failed),
            stderr.join().unwrap_or_else(failed),
        )
    });
    Ok(Ran {
        status: status?,
        stdout,
        stderr,
        cpu: children_cpu().saturating_sub(before),
    })
}

/// Copies until the end, or once `ended` is closed what is there by then: a process the command left in the
/// background may hold the pipe for as long as it likes. What was copied, or why it was not kept.
fn tee(
    from: Option<impl Read + AsFd>,
    ended: &io::PipeReader,
    mut to: impl Write,
) -> Result<Vec<u8>, String> {
    let mut from = from.ok_or("it has no output")?;
    let mut kept = Some(Vec::new());
    let mut buffer = [0; 16 << 10];
    // Bytes the command itself left in the pipe, once it has ended.
    let mut left = None;
    loop {
        if left.is_none() && wait(&from, ended)? {
            left = Some(rustix::io::ioctl_fionread(&from).map_err(unread)?);
        }
        if left == Some(0) && !closed(&from)? {
            return Err("a process that it left in the background may print more".into());
        }
        let most = left.map_or(buffer.len(), |left| buffer.len().min(left.max(1) as usize));
        let len = match from.read(&mut buffer[..most]) {
            Ok(0) => return kept.ok_or_else(|| "it printed too much to keep".into()),
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(unread(e)),
        };
        left = left.map(|left| left.saturating_sub(len as u64));
        // Whoever reads our output may have gone: the command still runs to its end.
        let _ = to.write_all(&buffer[..len]).and_then(|()| to.flush());
        kept = kept.filter(|k| k.len() + len <= KEPT_BYTES_MAX);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&buffer[..len]);
        }
    }
}

/// Waits until there is something to read or the command has ended; whether it has.
fn wait(from: &impl AsFd, ended: &io::PipeReader) -> Result<bool, String> {
    let mut pipes = [
        PollFd::new(from, PollFlags::IN),
        PollFd::new(ended, PollFlags::IN),
    ];
    retry_on_intr(|| poll(&mut pipes, None)).map_err(unread)?;
    Ok(!pipes[1].revents().is_empty())
}

/// Whether the pipe is empty and nobody can write to it anymore.
fn closed(from: &impl AsFd) -> Result<bool, String> {
    let mut pipe = [PollFd::new(from, PollFlags::IN)];
    retry_on_intr(|| poll(&mut pipe, Some(&Timespec::default()))).map_err(unread)?;
    Ok(pipe[0].revents() == PollFlags::HUP)
}

fn unread(error: impl Display) -> String {
    format!("what it printed could not be read: {error}")
}

/// CPU time of children that were waited for (proc(5): cutime and cstime).
fn children_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_ascii_whitespace();
    let ticks: u64 = fields
        .skip(13)
        .take(2)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
