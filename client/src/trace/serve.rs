//! The tracer's process: from its start to its report, and beyond while something of the command is left.

use super::calls;
use super::record::Record;
use super::report::Report;
use super::scope::Scope;
use super::tracee::is_harmless_device;
use super::tracer::{End, Tracer};
use crate::raw::ptrace;
use rustix::process::Signal;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Inherited open files that are watched. The filter compares with each.
const OPEN_MAX: usize = 32;

/// What to trace.
pub struct Request {
    /// Number of the inherited descriptor that the report goes to, as JSON.
    pub report: RawFd,
    /// Declared inputs: what is read there is not told.
    pub inputs: Vec<PathBuf>,
    /// Declared outputs.
    pub outputs: Vec<PathBuf>,
    /// Whether what would last of the command is refused, once it has looked for [`LOADED`](super::report::LOADED).
    pub trial: bool,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// Runs a command with this process's standard streams, environment and working directory, reports, and returns once nothing
/// of it is left. To be called by a process that has done nothing else and has one thread.
///
/// # Errors
/// If the command cannot be followed to its end, which then ends too.
pub fn serve(request: Request) -> io::Result<()> {
    let mut to = File::from(ptrace::inherited(request.report)?);
    ptrace::handle_signals();
    // Should the parent die, nobody waits for what the command does.
    rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
    let mut record = Record::new(Scope::new(&request.inputs, &request.outputs));
    let mut open = open_files();
    if open.len() > OPEN_MAX {
        record.incomplete(format!("it inherits {} open files", open.len()));
        open.clear();
    }
    let command: Result<Vec<CString>, _> = request
        .command
        .iter()
        .map(|text| CString::new(text.as_bytes()))
        .collect();
    let numbers: Vec<RawFd> = open.iter().map(|(number, _)| *number).collect();
    let before = children_cpu_ns();
    let spawned = ptrace::spawn(&command?, &calls::filter(&numbers, request.trial))?;
    if calls::ARCHITECTURE.is_none() {
        record.incomplete("it cannot be traced on this architecture");
    }
    // Whoever reads the command's streams must see their end when it ends.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let mut tracer = Tracer::new(record, open, request.trial);
    let end = tracer.follow(Some(spawned.pid))?;
    tracer.settle()?;
    let failures = spawned.failures();
    if let Some(e) = &failures.untraced {
        tracer
            .record
            .incomplete(format!("it cannot be traced here ({e})"));
    }
    let left = tracer.is_left();
    if left {
        tracer.record.incomplete("it left processes in the background");
    }
    let failed = failures.unstarted.and_then(|e| e.raw_os_error());
    let (exit, signal) = match end {
        Some(End::Exit(code)) => (Some(code), None),
        Some(End::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let report = Report {
        exit,
        signal,
        failed,
        left,
        cpu_ns: children_cpu_ns().saturating_sub(before),
        ..tracer.record.report()
    };
    rustix::process::set_parent_process_death_signal(None)?;
    to.write_all(&serde_json::to_vec(&report)?)?;
    drop(to);
    tracer.record.forget();
    tracer.follow(None).map(drop)
}

/// Files that were open before the command began, and what they are: it could use them unseen. Tools that start others
/// often leave some open by mistake.
fn open_files() -> Vec<(RawFd, PathBuf)> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<RawFd>().ok());
        let Some(number) = number.filter(|number| *number > 2) else {
            continue;
        };
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        let file = fs::read_link(entry.path()).unwrap_or_default();
        let kept = flags.is_some_and(|flags| flags & libc::O_CLOEXEC as u64 == 0);
        if kept && !is_harmless_device(&file) {
            open.push((number, file));
        }
    }
    open
}

/// CPU time of children that were waited for (proc(5): cutime and cstime), in nanoseconds.
#[must_use]
pub fn children_cpu_ns() -> u64 {
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
    ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second().max(1)
}
