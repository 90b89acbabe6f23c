//! A command under ptrace: it stops where a seccomp filter says so, and its calls are looked at there.

use libc::{c_int, c_long, c_uint, c_void, pid_t};
use rustix::io::read;
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// One instruction of a seccomp filter.
pub(crate) type Instruction = libc::sock_filter;

/// All descendants are followed, and none outlives its tracer: its filtered calls would fail.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// Exit code of a child that could not become the command.
const NOT_STARTED: c_int = 127;

/// A command that was started.
pub(crate) struct Spawned {
    pub(crate) pid: pid_t,
    unseized: Option<io::Error>,
    failed: OwnedFd,
}

/// What went wrong before the command began.
#[derive(Default)]
pub(crate) struct Failures {
    /// Why it is not traced, if it is not.
    pub(crate) untraced: Option<io::Error>,
    /// Why it could not be started.
    pub(crate) unstarted: Option<io::Error>,
}

impl Spawned {
    /// To be asked once it ended: it stops at what it says, as at all that it writes, until the tracer waits for it.
    pub(crate) fn failures(self) -> Failures {
        let mut failures = Failures {
            untraced: self.unseized,
            unstarted: None,
        };
        while let Some((is_filter, error)) = number(&self.failed).zip(number(&self.failed)) {
            let error = Some(io::Error::from_raw_os_error(error));
            match is_filter == FILTER {
                true => failures.untraced = failures.untraced.or(error),
                false => failures.unstarted = error,
            }
        }
        failures
    }
}

/// What the child says before an error number: which of the two it is.
const FILTER: c_int = 1;
const START: c_int = 2;

/// What a stopped thread stopped at.
pub(crate) enum Stop {
    /// A call of the filter's, with its number, architecture (`AUDIT_ARCH_*`) and arguments.
    Call {
        number: u64,
        arch: u32,
        args: [u64; 6],
    },
    /// The end of a call, with its result or its error number.
    Return(Result<u64, c_int>),
    Other,
}

/// Starts a command that the calling thread traces, with this process's standard streams. Where it cannot be traced it runs
/// untraced. The process must have no other threads, since the child runs our code before it becomes the command.
pub(crate) fn spawn(command: &[CString], filter: &[Instruction]) -> io::Result<Spawned> {
    let mut argv: Vec<*const libc::c_char> = command.iter().map(|text| text.as_ptr()).collect();
    argv.push(ptr::null());
    let (go, going) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (failed, failing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the process has one thread, so the child may call anything; it only calls what is async-signal-safe.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(io::Error::last_os_error()),
        0 => become_command(&argv, filter, &go, &failing),
        _ => {}
    }
    drop((go, failing));
    // The child waits until it is seized, so that nothing it does as the command is missed.
    let seized = request(libc::PTRACE_SEIZE, pid, 0, OPTIONS as usize);
    rustix::io::write(&going, &[u8::from(seized.is_ok())])?;
    Ok(Spawned {
        pid,
        unseized: seized.err(),
        failed,
    })
}

fn become_command(
    argv: &[*const libc::c_char],
    filter: &[Instruction],
    go: &OwnedFd,
    failing: &OwnedFd,
) -> ! {
    let mut seized = [0];
    let _ = read(go, &mut seized);
    let tell = |what: c_int, error: io::Error| {
        for number in [what, error.raw_os_error().unwrap_or(libc::EIO)] {
            let _ = rustix::io::write(failing, &number.to_ne_bytes());
        }
    };
    if let Some(error) = (seized == [1]).then(|| install(filter).err()).flatten() {
        tell(FILTER, error);
    }
    // SAFETY: async-signal-safe calls; `argv` ends with a null and its texts outlive the call.
    unsafe {
        // Rust ignores it, and programs expect the default.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(argv[0], argv.as_ptr());
        tell(START, io::Error::last_os_error());
        libc::_exit(NOT_STARTED)
    }
}

/// Unprivileged processes may filter only what can gain no privileges.
fn install(filter: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the filter during the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            ) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn number(pipe: &OwnedFd) -> Option<c_int> {
    let mut bytes = [0; size_of::<c_int>()];
    let whole = read(pipe, &mut bytes).is_ok_and(|len| len == bytes.len());
    whole.then(|| c_int::from_ne_bytes(bytes))
}

/// What waiting for any tracee or child tells.
pub(crate) enum Waited {
    /// Its id and status (wait(2)).
    One(pid_t, c_int),
    /// There are some, and nothing is new. Not told if it is to wait.
    Nothing,
    /// There are none.
    Gone,
}

/// Waits for any tracee or child, or only looks.
pub(crate) fn wait_any(look: bool) -> io::Result<Waited> {
    let flags = libc::__WALL | if look { libc::WNOHANG } else { 0 };
    let mut status = 0;
    loop {
        // SAFETY: `status` is written during the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        let error = io::Error::last_os_error();
        match (pid, error.raw_os_error()) {
            (0, _) => return Ok(Waited::Nothing),
            (1.., _) => return Ok(Waited::One(pid, status)),
            (_, Some(libc::EINTR)) => {}
            (_, Some(libc::ECHILD)) => return Ok(Waited::Gone),
            _ => return Err(error),
        }
    }
}

/// Goes on until the filter stops it again, with a signal or 0. One that was killed meanwhile is no error.
pub(crate) fn resume(pid: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_CONT, pid, 0, signal as usize);
}

/// Goes on until the call it stopped at returns.
pub(crate) fn resume_to_return(pid: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_SYSCALL, pid, 0, signal as usize);
}

/// Words of `user_regs_struct` (sys/user.h): the result of a call, and its number.
#[cfg(target_arch = "x86_64")]
const RESULT_AND_NUMBER: (usize, usize) = (10 * size_of::<u64>(), 15 * size_of::<u64>());

/// Has the call that the filter stopped it at fail with an error, without being made (seccomp(2): no number is
/// skipped, and what the tracer left as the result is returned). Whether that can be done on this architecture.
#[cfg(target_arch = "x86_64")]
pub(crate) fn refuse(pid: pid_t, error: c_int) -> bool {
    let (result, number) = RESULT_AND_NUMBER;
    let skipped = request(libc::PTRACE_POKEUSER, pid, number, usize::MAX);
    let failed = request(libc::PTRACE_POKEUSER, pid, result, -(error as isize) as usize);
    skipped.and(failed).is_ok()
}

/// Nobody tried.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn refuse(_: pid_t, _: c_int) -> bool {
    false
}

/// Leaves it stopped, as job control wants it, until it is continued.
pub(crate) fn leave_stopped(pid: pid_t) {
    let _ = request(libc::PTRACE_LISTEN, pid, 0, 0);
}

/// The number that came with an event: of execve the thread id the program had before.
pub(crate) fn event_message(pid: pid_t) -> pid_t {
    let mut message: libc::c_ulong = 0;
    let _ = request(
        libc::PTRACE_GETEVENTMSG,
        pid,
        0,
        (&raw mut message).expose_provenance(),
    );
    message as pid_t
}

/// What it stopped at.
pub(crate) fn stop(pid: pid_t) -> Stop {
    // struct ptrace_syscall_info in words: operation and architecture, two registers, then what the operation has.
    let mut words = [0_u64; 11];
    let at = (&raw mut words).expose_provenance();
    if request(libc::PTRACE_GET_SYSCALL_INFO, pid, size_of_val(&words), at).is_err() {
        return Stop::Other;
    }
    let [head, _, _, first, second, ..] = words;
    match head as u8 {
        libc::PTRACE_SYSCALL_INFO_SECCOMP => Stop::Call {
            number: first,
            arch: (head >> 32) as u32,
            args: [words[4], words[5], words[6], words[7], words[8], words[9]],
        },
        libc::PTRACE_SYSCALL_INFO_EXIT if second as u8 != 0 => {
            Stop::Return(Err((first as i64).unsigned_abs() as c_int))
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => Stop::Return(Ok(first)),
        _ => Stop::Other,
    }
}

fn request(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: the requests made in this file write to `data` at most, for which their callers give memory of the right size;
    // a thread that is not stopped or gone is an error.
    let done = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(done)
    }
}

/// Reads memory of a stopped thread; how many bytes there are.
pub(crate) fn read_memory(pid: pid_t, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: address as usize as *mut c_void,
        iov_len: into.len(),
    };
    // SAFETY: `local` is the caller's slice; the kernel checks the other process's address.
    let len = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// Takes over a descriptor that the parent left open for this process by its number.
pub(crate) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: borrowed only for the call; one that is not open is an error, not undefined.
    let open = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(open, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and whoever started this process left it for this call alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals of a terminal or a supervisor, which go to the command as well: it decides what they mean.
const FOR_THE_COMMAND: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM];

static TOLD: AtomicBool = AtomicBool::new(false);

/// Outlives signals that are the command's to handle. `SIGUSR1`, asked for at the parent's death, ends this process and so the
/// command, unless the parent died of such a signal. Handlers are not inherited by the command; what is ignored stays so.
pub(crate) fn handle_signals() {
    extern "C" fn told(_: c_int) {
        TOLD.store(true, Ordering::Relaxed);
    }
    extern "C" fn orphaned(_: c_int) {
        if !TOLD.load(Ordering::Relaxed) {
            // SAFETY: async-signal-safe.
            unsafe { libc::_exit(128 + libc::SIGKILL) };
        }
    }
    let set = |signal: c_int, handler: extern "C" fn(c_int)| {
        // SAFETY: an all-zero sigaction is a valid one; the handlers only do what is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGUSR1 {
                return;
            }
            action = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    };
    FOR_THE_COMMAND.iter().for_each(|signal| set(*signal, told));
    set(libc::SIGUSR1, orphaned);
}
