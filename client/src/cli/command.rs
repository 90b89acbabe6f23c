//! Runs a command: its output passes through as it comes and is kept beside.

use std::{
    fs, io,
    io::{Read, Write},
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
    /// What it printed, unless that was too much.
    pub stdout: Option<Vec<u8>>,
    /// What it printed on standard error, unless that was too much.
    pub stderr: Option<Vec<u8>>,
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
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = pass_through(&mut child);
    let status = child.wait()?;
    Ok(Ran {
        status,
        stdout,
        stderr,
        cpu: children_cpu().saturating_sub(before),
    })
}

fn pass_through(child: &mut Child) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stderr = scope.spawn(|| err.and_then(|from| tee(from, io::stderr())));
        let stdout = out.and_then(|from| tee(from, io::stdout()));
        (stdout, stderr.join().unwrap_or(None))
    })
}

/// Copies until the end; what was copied, unless it was too much or could not be read whole.
fn tee(mut from: impl Read, mut to: impl Write) -> Option<Vec<u8>> {
    let mut kept = Some(Vec::new());
    let mut buffer = [0; 16 << 10];
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return kept,
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        // Whoever reads our output may have gone: the command still runs to its end.
        let _ = to.write_all(&buffer[..len]).and_then(|()| to.flush());
        kept = kept.filter(|k| k.len() + len <= KEPT_BYTES_MAX);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&buffer[..len]);
        }
    }
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
