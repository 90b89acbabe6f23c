//! Follows a command and all that it starts, from stop to stop.

use super::calls::{self, At, Call, Last};
use super::record::{Found, Record};
use crate::clock::{Clock, SystemClock};
use crate::raw::ptrace::{self, Stop, Waited};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long after the command's end its helpers may end too, as Python's do.
const SETTLE: Duration = Duration::from_secs(2);

/// A path's bytes with the null after it (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;

/// Read at a time. Most paths are shorter.
const PATH_BYTES: usize = 256;

/// A program named by a program's first line may be named that way itself, so often (binfmt_script).
const INTERPRETERS_MAX: usize = 5;

/// Messages of one sendmmsg (UIO_MAXIOV).
const MESSAGES_MAX: u64 = 1024;

/// A struct mmsghdr, and in it the address's place and length.
const MESSAGE_BYTES: u64 = 64;

/// Sockets of services that only say again what files say, which are looked at as well.
const HARMLESS_SOCKETS: [&str; 4] = [
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/run/systemd/userdb",
    "/run/setrans/.setrans-unix",
];

/// Devices that hold no data: what they give is nothing, random or the user's terminal; and accelerators.
const HARMLESS_DEVICES: [&str; 11] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia",
];

/// A call that has begun.
struct Begun {
    call: Call,
    args: [u64; 6],
    first: Option<Found>,
    second: Option<Found>,
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
    /// Unix sockets without a file that the command itself made.
    sockets: HashSet<Vec<u8>>,
    name_space: Option<PathBuf>,
}

/// How a process ended.
pub(super) enum End {
    Exit(i32),
    Signal(i32),
}

impl Tracer {
    pub(super) fn new(record: Record, inherited: Vec<(RawFd, PathBuf)>) -> Tracer {
        Tracer {
            record,
            inherited,
            begun: HashMap::new(),
            living: HashSet::new(),
            announced: HashSet::new(),
            unannounced: HashSet::new(),
            sockets: HashSet::new(),
            name_space: fs::read_link("/proc/self/ns/mnt").ok(),
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
                Waited::One(tid, status) => drop(self.changed(tid, status)),
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
    fn check_name_space(&mut self, tid: i32) {
        let there = fs::read_link(format!("/proc/{tid}/ns/mnt")).ok();
        if there.is_some() && there != self.name_space {
            self.record.incomplete("it runs in a mount name space of its own");
        }
    }

    /// A call begins. Whether its end is to be seen.
    fn enter(&mut self, tid: i32) -> bool {
        let Stop::Call { number, arch, args } = ptrace::stop(tid) else {
            self.record
                .incomplete("a system call could not be looked at (Linux before 5.3?)");
            return false;
        };
        if Some(arch) != calls::ARCHITECTURE {
            let why = "a program of another architecture cannot be traced";
            self.record.incomplete(why);
            return false;
        }
        let Some(call) = calls::call(number) else {
            if let Some(argument) = calls::used(number, &args) {
                self.use_inherited(tid, args[argument]);
            } else if !calls::is_use(number) {
                self.record
                    .incomplete(format!("system call {number} is not known"));
            }
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
                    self.look_before_change(found);
                }
            }
            Call::Move(from, to) => {
                begun.first = self.find(tid, from, &args);
                begun.second = self.find(tid, to, &args);
            }
            Call::SendTo => self.talk(tid, args[4], args[5]),
            Call::SendMessage => self.message(tid, args[1]),
            Call::SendMessages => {
                for i in 0..args[2].min(MESSAGES_MAX) {
                    self.message(tid, args[1] + i * MESSAGE_BYTES);
                }
            }
            Call::ChangeOpen | Call::Connect | Call::Bind | Call::Listen => {}
        }
        if matches!(call, Call::SendTo | Call::SendMessage | Call::SendMessages) {
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
                self.connect(tid, args[1], args[2], false);
            }
            return;
        };
        match call {
            Call::Open(_, flags) => self.open(tid, value, args[flags], first),
            Call::OpenHow(_, how) => {
                let flags = word(tid, args[how]).unwrap_or(libc::O_RDWR as u64);
                self.open(tid, value, flags, first);
            }
            Call::Create(_) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(tid, value, flags as u64, first);
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
                None => self.change_open(tid, args[0]),
            },
            Call::ChangeOpen => self.change_open(tid, args[0]),
            Call::Move(..) => {
                if let (Some(from), Some(to)) = (first, second) {
                    self.moved(&from, &to);
                }
            }
            Call::Connect => self.connect(tid, args[1], args[2], true),
            Call::Bind => self.bind(tid, args[0], args[1], args[2]),
            Call::Listen => {
                if socket(tid, args[0]).is_none_or(|(family, _)| is_internet(family)) {
                    self.record.talked("listens".into());
                }
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

    fn open(&mut self, tid: i32, fd: u64, flags: u64, before: Option<Found>) {
        let Some((path, meta)) = opened(tid, fd) else {
            return self.record.incomplete("an open file could not be looked at");
        };
        let way = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
        let is = |flag: i32| flags & flag as u64 == flag as u64;
        let access = flags & libc::O_ACCMODE as u64;
        let writes = access != libc::O_RDONLY as u64 || is(libc::O_TRUNC);
        let reads = access != libc::O_WRONLY as u64 && !is(libc::O_TRUNC);
        let found = Found {
            path: path.clone(),
            meta: Some(meta.clone()),
        };
        if is(libc::O_PATH) || meta.is_dir() {
            return self.record.look(&found);
        }
        if !path.is_absolute() || path.starts_with("/memfd:") {
            // A pipe, socket or memory of its own, opened once more.
            return;
        }
        if !meta.is_file() {
            return self.open_device(&path, &meta);
        }
        let made =
            is(libc::O_TMPFILE) || is(libc::O_CREAT) && before.is_some_and(|before| before.meta.is_none());
        if made || is(libc::O_TRUNC) {
            self.record.made(&meta);
        }
        if meta.nlink() == 0 && !self.record.is_made(&meta) {
            self.record
                .incomplete(format!("{} was removed when it was opened", path.display()));
        }
        if writes || made {
            self.record.write(&path);
        }
        if reads {
            self.record.content(&path, &meta, &way);
        }
    }

    fn open_device(&mut self, path: &Path, meta: &Metadata) {
        let harmless = meta.file_type().is_char_device() && is_harmless_device(path);
        if !harmless && !self.record.is_made(meta) {
            self.record
                .incomplete(format!("it opens {}, which is no file", path.display()));
        }
    }

    /// What it removes or changes was there.
    fn look_before_change(&mut self, found: &Found) {
        if found.meta.is_none() {
            self.record.look(found);
        }
    }

    fn change_open(&mut self, tid: i32, fd: u64) {
        if let Some((path, meta)) = opened(tid, fd)
            && path.is_absolute()
            && !self.record.is_made(&meta)
        {
            self.record.write(&path);
        }
    }

    /// A file that it did not make may hold anything, and nothing would tell after it was moved.
    fn moved(&mut self, from: &Found, to: &Found) {
        self.record.write(&from.path);
        self.record.write(&to.path);
        if !from.meta.as_ref().is_some_and(|meta| self.record.is_made(meta)) {
            self.record.look(from);
            self.record.incomplete(format!(
                "it moves or links {}, which it did not make",
                from.path.display()
            ));
        }
    }

    /// A program began: it, who interprets it, and who links it.
    fn executed(&mut self, tid: i32, program: Option<Found>) {
        self.check_name_space(tid);
        let mut next = program.map(|found| found.path);
        for _ in 0..INTERPRETERS_MAX {
            let Some(path) = next.take() else { break };
            if let Ok(meta) = fs::metadata(&path) {
                if meta.mode() & (libc::S_ISUID | libc::S_ISGID) != 0 {
                    let why = format!(
                        "{} asks for rights that a traced program does not get",
                        path.display()
                    );
                    self.record.incomplete(why);
                }
                self.record.content(&path, &meta, &path);
                next =
                    interpreter(&path).map(|path| self.record.resolve(tid, Path::new("/"), &path, true).path);
            }
        }
        // Its own file and its linker are all that is mapped by now; the kernel opened them.
        let maps = fs::read(format!("/proc/{tid}/maps")).unwrap_or_default();
        let mapped: HashSet<&[u8]> = maps.split(|b| *b == b'\n').filter_map(path_of_map).collect();
        if mapped.is_empty() {
            self.record
                .incomplete("a program could not be looked at when it began");
        }
        for path in mapped {
            let path = Path::new(OsStr::from_bytes(path));
            match fs::metadata(path) {
                Ok(meta) => self.record.content(path, &meta, path),
                Err(e) => self.record.incomplete(format!("{}: {e}", path.display())),
            }
        }
        if let Some(path) = linker(Path::new(&format!("/proc/{tid}/exe"))) {
            // The links to it count as well.
            self.record.resolve(tid, Path::new("/"), &path, true);
        }
    }

    fn connect(&mut self, tid: i32, address: u64, len: u64, connected: bool) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return self.record.talked("an unknown address".into());
        };
        if family != libc::AF_UNIX {
            return self.talk_to(family, &rest);
        }
        let Some(path) = unix_path(&rest) else {
            if connected && !self.sockets.contains(&rest) {
                self.record.talked(format!(
                    "unix:@{}",
                    String::from_utf8_lossy(&rest).trim_matches('\0')
                ));
            }
            return;
        };
        let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
        let found = self.record.resolve(tid, &base, &path, true);
        let harmless = HARMLESS_SOCKETS.iter().any(|known| found.path.starts_with(known));
        let own = found.meta.as_ref().is_some_and(|meta| self.record.is_made(meta));
        if connected && !harmless && !own {
            self.record.talked(format!("unix:{}", found.path.display()));
        } else if !harmless {
            self.record.look(&found);
        }
    }

    /// Sends to an address, if there is one.
    fn talk(&mut self, tid: i32, address: u64, len: u64) {
        if address != 0 && len != 0 {
            self.connect(tid, address, len, true);
        }
    }

    fn message(&mut self, tid: i32, header: u64) {
        let address = word(tid, header);
        let len = word(tid, header + 8).map(|len| len & 0xffff_ffff);
        match address.zip(len) {
            Some((address, len)) => self.talk(tid, address, len),
            None => self.record.talked("an unknown address".into()),
        }
    }

    fn talk_to(&mut self, family: i32, rest: &[u8]) {
        let port = rest.first_chunk().map_or(0, |port| u16::from_be_bytes(*port));
        let host = match family {
            // Not sent anywhere: it undoes a connection; asks the kernel; computes.
            libc::AF_UNSPEC | libc::AF_NETLINK | libc::AF_ALG => return,
            libc::AF_INET => rest
                .get(2..6)
                .and_then(|b| b.first_chunk::<4>())
                .map(|b| (*b).into()),
            libc::AF_INET6 => rest
                .get(6..22)
                .and_then(|b| b.first_chunk::<16>())
                .map(|b| (*b).into()),
            _ => None,
        };
        let to = host.map_or_else(
            || format!("address family {family}"),
            |host: std::net::IpAddr| std::net::SocketAddr::new(host, port).to_string(),
        );
        self.record.talked(to);
    }

    fn bind(&mut self, tid: i32, fd: u64, address: u64, len: u64) {
        let Some((family, rest)) = address_of(tid, address, len) else {
            return self.record.talked("an unknown address".into());
        };
        if is_internet(family) {
            // A stream has to listen before anything comes in.
            if socket(tid, fd).is_none_or(|(_, stream)| !stream) {
                self.record.talked("receives".into());
            }
        } else if family == libc::AF_UNIX {
            let Some(path) = unix_path(&rest) else {
                self.sockets.insert(rest);
                return;
            };
            let base = fs::read_link(format!("/proc/{tid}/cwd")).unwrap_or_default();
            let found = self.record.resolve(tid, &base, &path, false);
            self.record.write(&found.path);
            if let Some(meta) = found.meta {
                self.record.made(&meta);
            }
        }
    }
}

pub(super) fn is_harmless_device(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    HARMLESS_DEVICES
        .iter()
        .any(|known| path.starts_with(known.as_bytes()))
}

fn is_internet(family: i32) -> bool {
    matches!(family, libc::AF_INET | libc::AF_INET6)
}

/// Where an open file lies and what it is, by way of the descriptor: no other thread can put another in between.
fn opened(tid: i32, fd: u64) -> Option<(PathBuf, Metadata)> {
    let way = format!("/proc/{tid}/fd/{fd}");
    Some((fs::read_link(&way).ok()?, fs::metadata(&way).ok()?))
}

/// Family of a socket, and whether it is a stream.
fn socket(tid: i32, fd: u64) -> Option<(i32, bool)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    let process = Pid::from_raw(group.trim().parse().ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let socket: OwnedFd = pidfd_getfd(process, i32::try_from(fd).ok()?, PidfdGetfdFlags::empty()).ok()?;
    let family = rustix::net::sockopt::socket_domain(&socket).ok()?;
    let kind = rustix::net::sockopt::socket_type(&socket).ok()?;
    Some((family.as_raw().into(), kind == rustix::net::SocketType::STREAM))
}

/// A text in a thread's memory, without the null at its end.
fn text(tid: i32, address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0; PATH_BYTES];
    while text.len() < PATH_BYTES_MAX {
        let at = address + text.len() as u64;
        // What lies beyond the page may not be there, and less is then read.
        let len = ptrace::read_memory(tid, at, &mut buffer)
            .ok()
            .filter(|len| *len > 0)?;
        let read = &buffer[..len];
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&read[..end]);
            return Some(text);
        }
        text.extend_from_slice(read);
    }
    // The kernel refuses it as well.
    Some(Vec::new())
}

fn word(tid: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let len = ptrace::read_memory(tid, address, &mut bytes).ok()?;
    (len == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// Family of an address and what follows it.
fn address_of(tid: i32, address: u64, len: u64) -> Option<(i32, Vec<u8>)> {
    let mut bytes = [0; 128];
    let len = usize::try_from(len).ok()?.min(bytes.len());
    if ptrace::read_memory(tid, address, &mut bytes[..len]).ok()? != len {
        return None;
    }
    let (family, rest) = bytes[..len].split_first_chunk::<2>()?;
    Some((u16::from_ne_bytes(*family).into(), rest.to_vec()))
}

/// The file of a Unix socket, if it has one.
fn unix_path(rest: &[u8]) -> Option<PathBuf> {
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    (end > 0).then(|| OsStr::from_bytes(&rest[..end]).into())
}

/// Of a line of /proc/PID/maps, the sixth field if it is a file's.
fn path_of_map(line: &[u8]) -> Option<&[u8]> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    Some(&line[start..])
}

/// Who interprets a script, by its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut first = [0; PATH_BYTES];
    let len = File::open(script)
        .and_then(|mut file| file.read(&mut first))
        .ok()?;
    let line = first[..len]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let word = words.filter(|word| !word.is_empty()).next()?;
    Some(OsStr::from_bytes(word).into())
}

/// Who links a program, as the program names it (its `PT_INTERP` header): a path in the first page.
fn linker(program: &Path) -> Option<PathBuf> {
    let mut head = vec![0; PATH_BYTES_MAX];
    let len = File::open(program)
        .and_then(|mut file| file.read(&mut head))
        .ok()?;
    let head = head[..len]
        .strip_prefix(b"\x7fELF\x02\x01")
        .map(|_| &head[..len])?;
    let word = |at: usize| Some(usize::try_from(u64::from_le_bytes(*head.get(at..)?.first_chunk()?)).ok()?);
    let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let (table, size, count) = (word(32)?, usize::from(half(54)?), usize::from(half(56)?));
    (0..count).find_map(|i| {
        let at = table.checked_add(i * size)?;
        let kind = u32::from_le_bytes(*head.get(at..)?.first_chunk()?);
        let (start, len) = (word(at.checked_add(8)?)?, word(at.checked_add(32)?)?);
        let text = head.get(start..start.checked_add(len)?.checked_sub(1)?)?;
        (kind == libc::PT_INTERP).then(|| OsStr::from_bytes(text).into())
    })
}
