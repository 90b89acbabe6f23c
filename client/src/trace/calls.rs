//! The system calls that are looked at, and the filter that stops at them.

use crate::raw::ptrace::Instruction;
use libc::c_long;
use std::os::fd::RawFd;

/// Places of a path among a call's arguments.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// Of the descriptor of the folder it is relative to; None for the working directory.
    pub(super) folder: Option<usize>,
    pub(super) path: usize,
    pub(super) last: Last,
}

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy)]
pub(super) enum Last {
    Followed,
    Kept,
    /// Kept if this argument has this bit.
    KeptIf(usize, u64),
    /// Followed if this argument has this bit.
    FollowedIf(usize, u64),
}

/// What a call does, as far as it counts.
#[derive(Clone, Copy)]
pub(super) enum Call {
    /// Flags are in that argument.
    Open(At, usize),
    /// Flags are in the structure that argument points to.
    OpenHow(At, usize),
    /// creat.
    Create(At),
    /// Looks at a name, which may be absent.
    Look(At),
    Exec(At),
    /// Lists the folder of descriptor argument 0.
    List,
    /// Changes what has that name, or the file of the descriptor if there is no name.
    Change(At),
    /// Makes something of that name.
    Make(At),
    /// Changes the file of descriptor argument 0.
    ChangeOpen,
    /// Gives a file another name, or one more.
    Move(At, At),
    /// An address in arguments 1 and 2.
    Connect,
    Bind,
    Listen,
    /// An address in arguments 4 and 5.
    SendTo,
    SendMessage,
    SendMessages,
    /// What cannot be followed from there on, and why.
    Escape(&'static str),
    /// Changes of name spaces, by flags in argument 0.
    Unshare,
}

/// `AT_SYMLINK_NOFOLLOW` of the *at calls.
const NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;

const fn here(path: usize) -> At {
    At {
        folder: None,
        path,
        last: Last::Followed,
    }
}

const fn at(folder: usize, path: usize) -> At {
    At {
        folder: Some(folder),
        path,
        last: Last::Followed,
    }
}

impl At {
    const fn last(self, last: Last) -> At {
        At { last, ..self }
    }

    const fn kept(self) -> At {
        self.last(Last::Kept)
    }

    const fn flags(self, argument: usize) -> At {
        self.last(Last::KeptIf(argument, NOFOLLOW))
    }
}

const MOUNTS: Call = Call::Escape("changes what is mounted");
const HANDLES: Call = Call::Escape("opens files by handle");
const SHARED: Call = Call::Escape("shares System V or POSIX queues with other processes");
const SECCOMP: Call = Call::Escape("filters its own system calls");

/// Both architectures have these.
#[rustfmt::skip]
const CALLS: &[(c_long, Call)] = &[
    (libc::SYS_openat, Call::Open(at(0, 1).last(Last::KeptIf(2, libc::O_NOFOLLOW as u64)), 2)),
    (libc::SYS_openat2, Call::OpenHow(at(0, 1), 2)),
    (libc::SYS_newfstatat, Call::Look(at(0, 1).flags(3))),
    (libc::SYS_statx, Call::Look(at(0, 1).flags(2))),
    (libc::SYS_faccessat, Call::Look(at(0, 1))),
    (libc::SYS_faccessat2, Call::Look(at(0, 1).flags(3))),
    (libc::SYS_readlinkat, Call::Look(at(0, 1).kept())),
    (libc::SYS_chdir, Call::Look(here(0))),
    (libc::SYS_statfs, Call::Look(here(0))),
    (libc::SYS_getxattr, Call::Look(here(0))),
    (libc::SYS_lgetxattr, Call::Look(here(0).kept())),
    (libc::SYS_listxattr, Call::Look(here(0))),
    (libc::SYS_llistxattr, Call::Look(here(0).kept())),
    (libc::SYS_inotify_add_watch, Call::Look(here(1))),
    (libc::SYS_execve, Call::Exec(here(0))),
    (libc::SYS_execveat, Call::Exec(at(0, 1).flags(4))),
    (libc::SYS_getdents64, Call::List),
    (libc::SYS_mkdirat, Call::Make(at(0, 1).kept())),
    (libc::SYS_mknodat, Call::Make(at(0, 1).kept())),
    (libc::SYS_symlinkat, Call::Make(at(1, 2).kept())),
    (libc::SYS_unlinkat, Call::Change(at(0, 1).kept())),
    (libc::SYS_fchmodat, Call::Change(at(0, 1))),
    (452 /* fchmodat2 */, Call::Change(at(0, 1).flags(3))),
    (libc::SYS_fchownat, Call::Change(at(0, 1).flags(4))),
    (libc::SYS_utimensat, Call::Change(at(0, 1).flags(3))),
    (libc::SYS_truncate, Call::Change(here(0))),
    (libc::SYS_setxattr, Call::Change(here(0))),
    (libc::SYS_lsetxattr, Call::Change(here(0).kept())),
    (libc::SYS_removexattr, Call::Change(here(0))),
    (libc::SYS_lremovexattr, Call::Change(here(0).kept())),
    (463 /* setxattrat */, Call::Change(at(0, 1).flags(2))),
    (464 /* getxattrat */, Call::Look(at(0, 1).flags(2))),
    (465 /* listxattrat */, Call::Look(at(0, 1).flags(2))),
    (466 /* removexattrat */, Call::Change(at(0, 1).flags(2))),
    (libc::SYS_fchmod, Call::ChangeOpen),
    (libc::SYS_fchown, Call::ChangeOpen),
    (libc::SYS_fsetxattr, Call::ChangeOpen),
    (libc::SYS_fremovexattr, Call::ChangeOpen),
    (libc::SYS_renameat2, Call::Move(at(0, 1).kept(), at(2, 3).kept())),
    (libc::SYS_linkat, Call::Move(
        at(0, 1).last(Last::FollowedIf(4, libc::AT_SYMLINK_FOLLOW as u64)), at(2, 3).kept())),
    (libc::SYS_connect, Call::Connect),
    (libc::SYS_bind, Call::Bind),
    (libc::SYS_listen, Call::Listen),
    (libc::SYS_sendto, Call::SendTo),
    (libc::SYS_sendmsg, Call::SendMessage),
    (libc::SYS_sendmmsg, Call::SendMessages),
    (libc::SYS_unshare, Call::Unshare),
    (libc::SYS_chroot, MOUNTS),
    (libc::SYS_pivot_root, MOUNTS),
    (libc::SYS_mount, MOUNTS),
    (libc::SYS_umount2, MOUNTS),
    (libc::SYS_move_mount, MOUNTS),
    (libc::SYS_open_tree, MOUNTS),
    (libc::SYS_setns, MOUNTS),
    (libc::SYS_open_by_handle_at, HANDLES),
    (libc::SYS_shmget, SHARED),
    (libc::SYS_msgget, SHARED),
    (libc::SYS_mq_open, SHARED),
    (libc::SYS_seccomp, SECCOMP),
    (libc::SYS_prctl, SECCOMP),
];

/// Older forms of the same.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[(c_long, Call)] = &[
    (libc::SYS_open, Call::Open(here(0).last(Last::KeptIf(1, libc::O_NOFOLLOW as u64)), 1)),
    (libc::SYS_creat, Call::Create(here(0))),
    (libc::SYS_stat, Call::Look(here(0))),
    (libc::SYS_lstat, Call::Look(here(0).kept())),
    (libc::SYS_access, Call::Look(here(0))),
    (libc::SYS_readlink, Call::Look(here(0).kept())),
    (libc::SYS_getdents, Call::List),
    (libc::SYS_mkdir, Call::Make(here(0).kept())),
    (libc::SYS_mknod, Call::Make(here(0).kept())),
    (libc::SYS_symlink, Call::Make(here(1).kept())),
    (libc::SYS_unlink, Call::Change(here(0).kept())),
    (libc::SYS_rmdir, Call::Change(here(0).kept())),
    (libc::SYS_chmod, Call::Change(here(0))),
    (libc::SYS_chown, Call::Change(here(0))),
    (libc::SYS_lchown, Call::Change(here(0).kept())),
    (libc::SYS_utime, Call::Change(here(0))),
    (libc::SYS_utimes, Call::Change(here(0))),
    (libc::SYS_futimesat, Call::Change(at(0, 1))),
    (libc::SYS_rename, Call::Move(here(0).kept(), here(1).kept())),
    (libc::SYS_renameat, Call::Move(at(0, 1).kept(), at(2, 3).kept())),
    (libc::SYS_link, Call::Move(here(0).kept(), here(1).kept())),
    (libc::SYS_uselib, Call::Escape("loads a library the way of 1993")),
];
#[cfg(target_arch = "aarch64")]
const OLDER: &[(c_long, Call)] = &[(libc::SYS_renameat, Call::Move(at(0, 1).kept(), at(2, 3).kept()))];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER: &[(c_long, Call)] = &[];

/// The one architecture whose call numbers these are; None where nobody tried.
#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const ARCHITECTURE: Option<u32> = None;

/// Numbers from here on are another architecture's in disguise (x32).
const FOREIGN_FROM: u32 = 0x4000_0000;

/// `IPC_PRIVATE` memory and queues are the command's own.
const PRIVATE: u32 = 0;

/// Calls that use an open file without its name, and the argument that is its descriptor: they count for files that were
/// open before the command began.
const USES: &[(c_long, u32)] = &[
    (libc::SYS_read, 0),
    (libc::SYS_write, 0),
    (libc::SYS_pread64, 0),
    (libc::SYS_pwrite64, 0),
    (libc::SYS_readv, 0),
    (libc::SYS_writev, 0),
    (libc::SYS_preadv, 0),
    (libc::SYS_pwritev, 0),
    (libc::SYS_preadv2, 0),
    (libc::SYS_pwritev2, 0),
    (libc::SYS_recvfrom, 0),
    (libc::SYS_recvmsg, 0),
    (libc::SYS_recvmmsg, 0),
    (libc::SYS_dup, 0),
    (libc::SYS_dup3, 0),
    (libc::SYS_fcntl, 0),
    (libc::SYS_mmap, 4),
    (libc::SYS_sendfile, 1),
    (libc::SYS_splice, 0),
    (libc::SYS_tee, 0),
    (libc::SYS_copy_file_range, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, 0),
];

/// Calls that write to an open file, and the argument that is its descriptor. What is written through mapped memory is
/// not among them: a file is mapped to be written to by many that only read it (`numpy.memmap`).
const WRITES: &[(c_long, usize)] = &[
    (libc::SYS_write, 0),
    (libc::SYS_pwrite64, 0),
    (libc::SYS_writev, 0),
    (libc::SYS_pwritev, 0),
    (libc::SYS_pwritev2, 0),
    (libc::SYS_ftruncate, 0),
    (libc::SYS_fallocate, 0),
    (libc::SYS_sendfile, 0),
    (libc::SYS_splice, 2),
    (libc::SYS_copy_file_range, 2),
];

/// The argument that is the descriptor of a file written to.
pub(super) fn written(number: u64) -> Option<usize> {
    let found = WRITES.iter().find(|(n, _)| u64::try_from(*n) == Ok(number));
    found.map(|(_, argument)| *argument)
}

/// The argument that is a used file's descriptor.
pub(super) fn used(number: u64, args: &[u64; 6]) -> Option<usize> {
    let (number, argument) = USES.iter().find(|(n, _)| u64::try_from(*n) == Ok(number))?;
    let copies = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(args[1] as i32));
    (*number != libc::SYS_fcntl || copies).then_some(*argument as usize)
}

/// Whether it uses an open file.
pub(super) fn is_use(number: u64) -> bool {
    USES.iter().any(|(n, _)| u64::try_from(*n) == Ok(number))
}

/// What a call does.
pub(super) fn call(number: u64) -> Option<Call> {
    let same = |(n, _): &&(c_long, Call)| u64::try_from(*n) == Ok(number);
    let found = CALLS.iter().find(same).or_else(|| OLDER.iter().find(same));
    found.map(|(_, call)| *call)
}

/// Offsets in struct seccomp_data, of little-endian machines.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}

/// Stops at the calls above, at uses of `inherited` files (few), if it is asked for at writes, and at calls of other architectures; io_uring,
/// which would do without calls, is not there (ENOSYS), and programs do without it then.
pub(super) fn filter(inherited: &[RawFd], writes: bool) -> Vec<Instruction> {
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    let give = |value| step(libc::BPF_RET | libc::BPF_K, value, 0, 0);
    let equal = |value, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, yes, no);
    let (trace, allow) = (libc::SECCOMP_RET_TRACE, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![
        load(ARCH),
        equal(ARCHITECTURE.unwrap_or(0), 1, 0),
        give(trace),
        load(NUMBER),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, FOREIGN_FROM, 0, 1),
        give(trace),
        equal(libc::SYS_io_uring_setup as u32, 0, 1),
        give(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ];
    for (number, _) in WRITES.iter().filter(|_| writes) {
        program.extend([equal(*number as u32, 0, 1), give(trace)]);
    }
    for (number, argument) in USES.iter().filter(|_| !inherited.is_empty()) {
        let skipped = 2 + 2 * inherited.len();
        program.extend([equal(*number as u32, 0, skipped as u8), load(low(*argument))]);
        program.extend(
            inherited
                .iter()
                .flat_map(|fd| [equal(*fd as u32, 0, 1), give(trace)]),
        );
        program.push(give(allow));
    }
    for (number, _) in CALLS.iter().chain(OLDER) {
        let number32 = *number as u32;
        match *number {
            // Without an address it goes where it is connected to.
            libc::SYS_sendto => program.extend([
                equal(number32, 0, 6),
                load(low(4)),
                equal(0, 0, 3),
                load(low(4) + 4),
                equal(0, 0, 1),
                give(allow),
                give(trace),
            ]),
            libc::SYS_prctl => program.extend([
                equal(number32, 0, 4),
                load(low(0)),
                equal(libc::PR_SET_SECCOMP as u32, 0, 1),
                give(trace),
                give(allow),
            ]),
            libc::SYS_shmget | libc::SYS_msgget => program.extend([
                equal(number32, 0, 4),
                load(low(0)),
                equal(PRIVATE, 0, 1),
                give(allow),
                give(trace),
            ]),
            _ => program.extend([equal(number32, 0, 1), give(trace)]),
        }
    }
    program.push(give(allow));
    program
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction {
        code: code as u16,
        jt,
        jf,
        k,
    }
}
