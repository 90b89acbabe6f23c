//! Runs a command and tells every file it reads, looks for and writes, and whether it talks to anyone.
//!
//! | step | where |
//! | --- | --- |
//! | start the tracer, a process of its own, and wait for its report | [`Traced`] |
//! | the tracer: start the command, stop at the calls that count | `serve`, `calls`, `raw::ptrace` |
//! | what each call refers to | `tracer`, `program`, `sockets` |
//! | what counts of it, and as what | `record`, `scope`, `state` |
//! | what is refused | `trial` |
//! | tell | [`Report`] |
//!
//! Mechanism: ptrace with a seccomp filter, so that only calls that name files or addresses stop (Linux 5.3, no
//! privileges). A file that was opened is told by its descriptor after the call, not by the path before it, so that no other
//! thread or process can make them differ. The tracer is a process of its own because it must last as long as the last process
//! that the command leaves in the background: the filter outlives its tracer, and calls then fail.

mod calls;
mod file_calls;
mod program;
pub mod reads;
mod record;
mod report;
mod resolution;
mod scope;
mod serve;
mod sockets;
mod state;
mod tracee;
mod tracer;
mod trial;

pub use report::{Name, Report, Stamp};
pub use serve::{Request, children_cpu_ns, serve};
pub use state::{ABSENT, names, state};

use std::io::{self, Read};
use std::process::{Child, Command};

/// A command that is being traced.
pub struct Traced {
    tracer: Child,
    report: io::PipeReader,
}

impl Traced {
    /// Starts `tracer`, a process that is to call [`serve`] with the number it is given here, with the standard streams that
    /// the caller set. It ends, and the command with it, if the thread that calls this ends first, unless by a signal that
    /// the command got too (Ctrl-C).
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(tracer: impl FnOnce(i32) -> Command) -> io::Result<Traced> {
        use std::os::fd::AsRawFd;
        let (report, writer) = io::pipe()?;
        // The one descriptor that is to be inherited.
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty())?;
        let tracer = tracer(writer.as_raw_fd()).spawn()?;
        Ok(Traced { tracer, report })
    }

    /// The tracer, for its streams.
    pub fn process(&mut self) -> &mut Child {
        &mut self.tracer
    }

    /// Waits until the command has ended.
    ///
    /// # Errors
    /// If the tracer ended without a report.
    pub fn wait(mut self) -> io::Result<Report> {
        let mut text = Vec::new();
        self.report.read_to_end(&mut text)?;
        let report: Result<Report, _> = serde_json::from_slice(&text);
        if !report.as_ref().is_ok_and(|report| report.left) {
            self.tracer.wait()?;
        }
        report.map_err(|e| io::Error::other(format!("the tracer ended early ({e})")))
    }
}
