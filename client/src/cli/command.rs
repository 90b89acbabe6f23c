//! Runs a command: its output passes through as it comes and is kept beside.

use crate::{terminal::Output, trace};
use prebake_client::trace::{Report, Traced, children_cpu_ns};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};
use std::{
    fmt::Display,
    fs::File,
    io,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
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
    /// What it read and wrote, if it was traced.
    pub report: Option<Report>,
}

/// Runs a command without standard input: what it would read there is no declared input. Traced, if it is said how.
///
/// # Errors
/// If it cannot be started.
pub fn run(command: &[String], watch: Option<&Watch<'_>>) -> io::Result<Ran> {
    let (name, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let before = children_cpu_ns();
    // Nothing is ever written to it: it is closed when the command has ended.
    let (ended, running) = io::pipe()?;
    let (out, err) = (Output::instead_of(io::stdout()), Output::instead_of(io::stderr()));
    let connect = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(out.stdio).stderr(err.stdio);
    };
    let mut running_child = match watch {
        None => {
            let mut plain = Command::new(name);
            connect(plain.args(arguments));
            Running::Plain(plain.spawn()?)
        }
        Some(watch) => {
            let program = trace::tracer()?;
            Running::Traced(Traced::start(|report| {
                let mut tracer = trace::watched(&program, report, watch.inputs, watch.outputs);
                tracer.arg("--").args(command);
                connect(&mut tracer);
                tracer
            })?)
        }
    };
    let child = running_child.process();
    let piped = |pipe: OwnedFd| File::from(pipe);
    let out = out
        .terminal
        .or(child.stdout.take().map(|pipe| piped(pipe.into())));
    let err = err
        .terminal
        .or(child.stderr.take().map(|pipe| piped(pipe.into())));
    let (end, stdout, stderr) = thread::scope(|scope| {
        let stdout = scope.spawn(|| tee(out, &ended, io::stdout()));
        let stderr = scope.spawn(|| tee(err, &ended, io::stderr()));
        let end = running_child.wait();
        drop(running);
        let failed = |_| Err("what it printed could not be read".to_owned());
        (
            end,
            stdout.join().unwrap_or_else(failed),
            stderr.join().unwrap_or_else(failed),
        )
    });
    let (status, report) = end?;
    let traced = report.as_ref().map(|report| Duration::from_nanos(report.cpu_ns));
    Ok(Ran {
        status,
        stdout,
        stderr,
        cpu: traced.unwrap_or_else(|| Duration::from_nanos(children_cpu_ns().saturating_sub(before))),
        report,
    })
}

/// What is known of a command that is to be traced.
pub struct Watch<'a> {
    /// Declared inputs.
    pub inputs: &'a [PathBuf],
    /// Declared outputs.
    pub outputs: &'a [PathBuf],
}

enum Running {
    Plain(Child),
    Traced(Traced),
}

impl Running {
    fn process(&mut self) -> &mut Child {
        match self {
            Self::Plain(child) => child,
            Self::Traced(traced) => traced.process(),
        }
    }

    fn wait(self) -> io::Result<(ExitStatus, Option<Report>)> {
        let traced = match self {
            Self::Plain(mut child) => return Ok((child.wait()?, None)),
            Self::Traced(traced) => traced,
        };
        let report = traced.wait()?;
        if let Some(error) = report.failed {
            return Err(io::Error::from_raw_os_error(error));
        }
        // As wait(2) has it: the signal, or the code one byte up.
        let raw = report.signal.unwrap_or_else(|| report.exit.unwrap_or(0) << 8);
        Ok((ExitStatus::from_raw(raw), Some(report)))
    }
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
            // A terminal that nobody writes to any more.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                return kept.ok_or_else(|| "it printed too much to keep".into());
            }
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
