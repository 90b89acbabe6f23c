//! Follows a command and all that it starts, from stop to stop.

use super::calls::{self, At, Call, Last};
use super::record::{Found, Record};
use super::sockets::Sockets;
use super::tracee::{is_internet, opened, socket, text, word};
use crate::clock::{Clock, SystemClock};
use crate::raw::ptrace::{self, Stop, Waited};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long after the command's end its helpers may end too, as Python's do.
const SETTLE: Duration = Duration::from_secs(2);

/// A call that has begun.
pub(super) struct Begun {
    pub(super) call: Call,
    pub(super) args: [u64; 6],
    pub(super) first: Option<Found>,
    pub(super) second: Option<Found>,
}

pub(super) struct Tracer {
    pub(super) record: Record,
    /// Files that were open before, by number.
    inherited: Vec<(RawFd, PathBuf)>,
    begun: HashMap<i32, Begun>,
    /// Processes and threads that are there.
    living: HashSet<i32>,
    /// Those whose parent told of them, and those that ended before it did.
    announced: HashSet<i32>,
    unannounced: HashSet<i32>,
    sockets: Sockets,
    name_space: Option<PathBuf>,
    /// Whether what would last is refused, once its preparations are over.
    pub(super) is_trial: bool,
}

/// How a process ended.
pub(super) enum End {
    Exit(i32),
    Signal(i32),
}

impl Tracer {
    pub(super) fn new(record: Record, inherited: Vec<(RawFd, PathBuf)>, trial: bool) -> Tracer {
        Tracer {
            record,
            inherited,
            begun: HashMap::new(),
            living: HashSet::new(),
            announced: HashSet::new(),
            unannounced: HashSet::new(),
            sockets: Sockets::default(),
            name_space: fs::read_link("/proc/self/ns/mnt").ok(),
            is_trial: trial,
        }
    }

    /// Follows until process `until` has ended, or if there is none, until all have.
    pub(super) fn follow(&mut self, until: Option<i32>) -> std::io::Result<Option<End>> {
        while let Waited::One(tid, status) = ptrace::wait_any(false)? {
            let ended = self.changed(tid, status);
            if ended.is_some() && Some(tid) == until {
                return Ok(ended);
            }
        }
        Ok(None)
    }

    /// Follows for a moment what goes on after the command ended: helpers that see its end and end too.
    pub(super) fn settle(&mut self) -> std::io::Result<()> {
        let clock = SystemClock::default();
        let begun = clock.elapsed();
        while clock.elapsed().saturating_sub(begun) < SETTLE {
            match ptrace::wait_any(true)? {
                Waited::One(tid, status) => {
                    self.changed(tid, status);
                }
                Waited::Nothing => thread::sleep(SETTLE / 1000),
                Waited::Gone => break,
            }
        }
        Ok(())
    }

    /// What became of a process, if it ended.
    fn changed(&mut self, tid: i32, status: i32) -> Option<End> {
        if libc::WIFSTOPPED(status) {
            self.stopped(tid, status);
            return None;
        }
        self.ended(tid);
        Some(match libc::WIFEXITED(status) {
            true => End::Exit(libc::WEXITSTATUS(status)),
            false => End::Signal(libc::WTERMSIG(status)),
        })
    }

    /// Whether anything of it is still there.
    pub(super) fn is_left(&self) -> bool {
        !self.living.is_empty()
    }

    fn stopped(&mut self, tid: i32, status: i32) {
        self.living.insert(tid);
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let job_control = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        match event {
            libc::PTRACE_EVENT_SECCOMP => {
                if self.enter(tid) {
                    return ptrace::resume_to_return(tid, 0);
                }
                ptrace::resume(tid, 0);
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.announced(ptrace::event_message(tid));
                self.go_on(tid);
            }
            libc::PTRACE_EVENT_EXEC => {
                let before = ptrace::event_message(tid);
                let begun = self.begun.remove(&before);
                if before != tid {
                    self.living.remove(&before);
                    self.announced.remove(&before);
                    self.begun.remove(&tid);
                }
                self.executed(tid, begun.and_then(|begun| begun.first));
                ptrace::resume(tid, 0);
            }
            libc::PTRACE_EVENT_STOP if job_control.contains(&signal) => ptrace::leave_stopped(tid),
            0 if signal == libc::SIGTRAP | 0x80 => {
                if let (Some(begun), Stop::Return(result)) = (self.begun.remove(&tid), ptrace::stop(tid)) {
                    self.leave(tid, begun, result);
                }
                ptrace::resume(tid, 0);
            }
            0 => ptrace::resume(tid, signal),
            _ => {
                // A new one's first stop, among others.
                self.check_name_space(tid);
                self.go_on(tid);
            }
        }
    }

    /// It may be between a call's beginning and its end.
    fn go_on(&self, tid: i32) {
        match self.begun.contains_key(&tid) {
            true => ptrace::resume_to_return(tid, 0),
            false => ptrace::resume(tid, 0),
        }
    }

    /// Its parent told of it; it may have ended before that is heard.
    fn announced(&mut self, tid: i32) {
        if !self.unannounced.remove(&tid) {
            self.living.insert(tid);
            self.announced.insert(tid);
        }
    }

    fn ended(&mut self, tid: i32) {
        self.living.remove(&tid);
        self.begun.remove(&tid);
        if !self.announced.remove(&tid) {
            self.unannounced.insert(tid);
        }
    }

    /// Paths mean other files where something else is mounted.
    pub(super) fn check_name_space(&mut self, tid: i32) {
        let there = fs::read_link(format!("/proc/{tid}/ns/mnt")).ok();
        if there.is_some() && there != self.name_space {
            self.record.incomplete("it runs in a mount name space of its own");
        }
    }

    /// The call it stopped at. None if it is only the use of an open file, or cannot be told.
    fn call(&mut self, tid: i32) -> Option<(Call, [u64; 6])> {
        let Stop::Call { number, arch, args } = ptrace::stop(tid) else {
            let why = "a system call could not be looked at (Linux before 5.3?)";
            self.record.incomplete(why);
            return None;
        };
        if Some(arch) != calls::ARCHITECTURE {
            let why = "a program of another architecture cannot be traced";
            self.record.incomplete(why);
            return None;
        }
        let call = calls::call(number);
        if let Some(argument) = calls::written(number)
            && self.refuses_write(tid, args[argument])
        {
            return None;
        }
        if let Some(argument) = calls::used(number, &args) {
            self.use_inherited(tid, args[argument]);
        } else if call.is_none() && !calls::is_use(number) && calls::written(number).is_none() {
            self.record
                .incomplete(format!("system call {number} is not known"));
        }
        Some((call?, args))
    }

    /// A call begins. Whether its end is to be seen.
    fn enter(&mut self, tid: i32) -> bool {
        let Some((call, args)) = self.call(tid) else {
            return false;
        };
        let mut begun = Begun {
            call,
            args,
            first: None,
            second: None,
        };
        match call {
            Call::Look(at) => {
                if let Some(found) = self.find(tid, at, &args) {
                    self.record.look(&found);
                }
                return false;
            }
            Call::List => {
                if let Some((path, meta)) = opened(tid, args[0]) {
                    self.record.list(&path, &meta);
                }
                return false;
            }
            Call::Escape(why) => {
                self.record.incomplete(why);
                return false;
            }
            Call::Unshare => {
                if args[0] & (libc::CLONE_NEWNS | libc::CLONE_NEWUSER) as u64 != 0 {
                    self.record.incomplete("it changes what is mounted");
                }
                return false;
            }
            Call::Open(at, _) | Call::OpenHow(at, _) | Call::Create(at) | Call::Exec(at) => {
                begun.first = self.find(tid, at, &args);
            }
            Call::Change(at) | Call::Make(at) => {
                begun.first = self.find(tid, at, &args);
                if let Some(found) = begun.first.as_ref().filter(|_| matches!(call, Call::Change(_))) {
                    self.record.changes(found);
                }
            }
            Call::Move(from, to) => {
                begun.first = self.find(tid, from, &args);
                begun.second = self.find(tid, to, &args);
            }
            Call::SendTo => self.sockets.talk(&mut self.record, tid, args[4], args[5]),
            Call::SendMessage => self.sockets.message(&mut self.record, tid, args[1]),
            Call::SendMessages => {
                self.sockets.messages(&mut self.record, tid, args[1], args[2]);
            }
            Call::ChangeOpen | Call::Connect | Call::Bind | Call::Listen => {}
        }
        if matches!(call, Call::SendTo | Call::SendMessage | Call::SendMessages) || self.refuses(tid, &begun)
        {
            return false;
        }
        self.begun.insert(tid, begun);
        true
    }

    /// It may have closed the file and opened another under its number.
    fn use_inherited(&mut self, tid: i32, fd: u64) {
        let now = fs::read_link(format!("/proc/{tid}/fd/{}", fd as RawFd)).ok();
        let same = |(number, file): &&(RawFd, PathBuf)| *number == fd as RawFd && now.as_ref() == Some(file);
        if let Some((number, file)) = self.inherited.iter().find(same) {
            let why = format!("it uses {}, which was open before as {number}", file.display());
            self.record.incomplete(why);
        }
    }

    /// A call is over.
    fn leave(&mut self, tid: i32, begun: Begun, result: Result<u64, i32>) {
        let Begun {
            call,
            args,
            first,
            second,
        } = begun;
        let Ok(value) = result else {
            // That it failed says what is there.
            for found in [&first, &second].into_iter().flatten() {
                self.record.look(found);
            }
            if let Call::Connect = call {
                self.sockets
                    .connect(&mut self.record, tid, args[1], args[2], false);
            }
            return;
        };
        match call {
            Call::Open(_, flags) => self.record.opened(tid, value, args[flags], first),
            Call::OpenHow(_, how) => {
                let flags = word(tid, args[how]).unwrap_or(libc::O_RDWR as u64);
                self.record.opened(tid, value, flags, first);
            }
            Call::Create(_) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.record.opened(tid, value, flags as u64, first);
            }
            Call::Make(_) => {
                if let Some(found) = first {
                    self.record.write(&found.path);
                    if let Ok(meta) = fs::symlink_metadata(&found.path) {
                        self.record.made(&meta);
                    }
                }
            }
            Call::Change(_) => match first {
                Some(found) => self.record.write(&found.path),
                None => self.record.changed_open(tid, args[0]),
            },
            Call::ChangeOpen => self.record.changed_open(tid, args[0]),
            Call::Move(..) => {
                if let (Some(from), Some(to)) = (first, second) {
                    self.record.moved(&from, &to);
                }
            }
            Call::Connect => self
                .sockets
                .connect(&mut self.record, tid, args[1], args[2], true),
            Call::Bind => self
                .sockets
                .bind(&mut self.record, tid, args[0], args[1], args[2]),
            Call::Listen if socket(tid, args[0]).is_none_or(|(family, _)| is_internet(family)) => {
                self.record.talked("listens".into());
            }
            _ => {}
        }
    }

    /// What one call refers to. None if that is no name but an open file, which was counted when it was opened.
    fn find(&mut self, tid: i32, at: At, args: &[u64; 6]) -> Option<Found> {
        let address = args[at.path];
        if address == 0 {
            return None;
        }
        let Some(path) = text(tid, address) else {
            self.record.incomplete("a path could not be read from its memory");
            return None;
        };
        let path = Path::new(OsStr::from_bytes(&path));
        if path.as_os_str().is_empty() {
            return None;
        }
        let base = match at.folder.map(|place| args[place] as i32) {
            _ if path.is_absolute() => PathBuf::new(),
            Some(fd) if fd != libc::AT_FDCWD => fs::read_link(format!("/proc/{tid}/fd/{fd}")).ok()?,
            _ => fs::read_link(format!("/proc/{tid}/cwd")).ok()?,
        };
        let follow = match at.last {
            Last::Followed => true,
            Last::Kept => false,
            Last::KeptIf(place, bit) => args[place] & bit == 0,
            Last::FollowedIf(place, bit) => args[place] & bit != 0,
        };
        Some(self.record.resolve(tid, &base, path, follow))
    }
}
