//! Checks of the daemon, its folder and the machine. None changes anything but for one file, which is removed again.

use super::Finding;
use crate::status::human_bytes;
use prebake_client::{Code, Control, Folder};
use prebake_proto::v1::{DiagnoseResponse, StatusResponse};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Below so many free bytes a segment may find no room.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// A file for each segment of 64 MiB, and the index's.
const FREE_INODES_MIN: u64 = 1000;

/// Each block of 4 MiB that a job has mapped is a descriptor for a moment, each of the daemon's RAM tier for long.
const DESCRIPTORS_MIN: u64 = 4096;

/// A clock that is off by more makes files look as if they had just been written, which are then read each time.
const SKEW_MAX: Duration = Duration::from_secs(2);

/// Folders watched by one job's data set are seldom more.
const WATCHES_MIN: u64 = 8192;

/// File systems by `f_type` of statfs(2) that a cache should not lie on, and why.
const FILE_SYSTEMS: [(u64, &str, &str); 9] = [
    (
        0x6969,
        "NFS",
        "locks and syncs over a network cost more than they save",
    ),
    (
        0xff53_4d42,
        "CIFS",
        "locks and syncs over a network cost more than they save",
    ),
    (
        0xfe53_4d42,
        "SMB",
        "locks and syncs over a network cost more than they save",
    ),
    (
        0x0bd0_0bd0,
        "Lustre",
        "locks and syncs over a network cost more than they save",
    ),
    (
        0x00c3_6400,
        "Ceph",
        "locks and syncs over a network cost more than they save",
    ),
    (
        0x794c_7630,
        "overlayfs",
        "it goes with the container, and each segment is written into its layer",
    ),
    (0x0102_1994, "tmpfs", "what should be on disk takes memory"),
    (0x8584_58f6, "ramfs", "what should be on disk takes memory"),
    (0x6573_5546, "FUSE", "it may not keep what was synced"),
];

/// All checks, the daemon first.
pub fn all(folder: &Folder) -> Vec<Finding> {
    let mut found = daemon(folder);
    found.extend(own_folder(folder.path()));
    found.extend(disk(folder.path()));
    found.extend([
        descriptors(),
        locked_memory(),
        shared_memory(),
        clock(folder.path()),
        write_protection(),
        watches(),
    ]);
    found.extend(leftovers(folder));
    found
}

fn daemon(folder: &Folder) -> Vec<Finding> {
    let name = "daemon";
    let control = match Control::connect(folder) {
        Ok(control) => control,
        Err(error) if error.code() == Code::DaemonAbsent => {
            let found = format!("none runs in {}", folder.path().display());
            let fix = "none is needed yet: the first job starts one, or run `prebake serve`";
            return vec![Finding::warn(name, found, fix)];
        }
        Err(error) => {
            return vec![Finding::fail(
                name,
                error.to_string(),
                "restart it: stop prebaked, then `prebake serve`",
            )];
        }
    };
    match control.status() {
        Err(error) => vec![Finding::fail(
            name,
            error.to_string(),
            "restart it: stop prebaked, then `prebake serve`",
        )],
        Ok(status) => {
            let mut found = vec![version(&status)];
            let fix = "see its log (daemon.log), then restart it";
            found.extend(
                status
                    .warnings
                    .into_iter()
                    .map(|warning| Finding::warn(name, warning, fix)),
            );
            found.extend(control.diagnose().map(|seen| unstable(&seen)).unwrap_or_default());
            found
        }
    }
}

fn version(status: &StatusResponse) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match status.version == own {
        true => Finding::ok("daemon", format!("prebaked {own} answers")),
        false => Finding::fail(
            "daemon",
            format!("prebaked {} serves, this is prebake {own}", status.version),
            "restart the daemon from this release",
        ),
    }
}

/// Places of the user's code whose identity does not hold still, as the daemon saw them.
fn unstable(seen: &DiagnoseResponse) -> Vec<Finding> {
    let one = |u: &prebake_proto::v1::Unstable| {
        let found = format!(
            "{} {} had {} identities within a day; the last two differ: {} {}",
            u.operator, u.location, u.digests, u.code, u.reason
        );
        let fix = "if you did not edit it so often: prebake doctor --unstable -- python SCRIPT";
        Finding::warn("fingerprints", found, fix)
    };
    let found: Vec<_> = seen.unstable.iter().map(one).collect();
    match found.is_empty() {
        true => vec![Finding::ok(
            "fingerprints",
            "each place of the code has few identities",
        )],
        false => found,
    }
}

/// Who may come in decides who may connect.
fn own_folder(folder: &Path) -> Vec<Finding> {
    let name = "folder";
    let shown = folder.display();
    let Ok(found) = fs::metadata(folder) else {
        return vec![Finding::ok(name, format!("{shown} does not exist yet"))];
    };
    let (mode, owner) = (found.permissions().mode() & 0o777, found.uid());
    let own = rustix::process::geteuid().as_raw();
    if owner != own {
        let fix = "set PREBAKE_DIR to a folder of your own";
        return vec![Finding::fail(
            name,
            format!("{shown} belongs to user {owner}, you are {own}"),
            fix,
        )];
    }
    if mode & 0o077 != 0 {
        let fix = format!("chmod 700 {shown}");
        return vec![Finding::warn(
            name,
            format!("{shown} is open to others (mode {mode:o})"),
            fix,
        )];
    }
    vec![Finding::ok(name, format!("{shown} is yours alone"))]
}

/// The folder, or the nearest one above that exists.
fn existing(folder: &Path) -> &Path {
    folder
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"))
}

fn disk(folder: &Path) -> Vec<Finding> {
    let at = existing(folder);
    let (Ok(kind), Ok(space)) = (rustix::fs::statfs(at), rustix::fs::statvfs(at)) else {
        return vec![Finding::fail(
            "disk",
            "it does not say what it is",
            "set PREBAKE_DIR to a local disk",
        )];
    };
    let number = kind.f_type as u64 & 0xffff_ffff;
    let mut found = vec![match FILE_SYSTEMS.iter().find(|(known, _, _)| *known == number) {
        Some((_, kind, why)) => Finding::warn(
            "file system",
            format!("{kind}: {why}"),
            "set PREBAKE_DIR to a local disk",
        ),
        None => Finding::ok("file system", format!("a local disk (type {number:#x})")),
    }];
    let (free, inodes) = (space.f_bavail * space.f_frsize, space.f_favail);
    let told = format!("{} and {inodes} inodes free", human_bytes(free));
    // Some file systems (btrfs) have no fixed number of inodes, and say zero of zero.
    let short = free < FREE_BYTES_MIN || (inodes < FREE_INODES_MIN && space.f_files > 0);
    found.push(match short {
        true => Finding::warn(
            "space",
            told,
            "make room: prebake gc --to 500M, or set PREBAKE_DIR to a larger disk",
        ),
        false => Finding::ok("space", told),
    });
    found
}

fn descriptors() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let told = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let found = format!(
        "{} descriptors, {} at most",
        told(limit.current),
        told(limit.maximum)
    );
    // The daemon raises its own to the maximum.
    match limit.maximum.is_some_and(|most| most < DESCRIPTORS_MIN) {
        true => Finding::warn(
            "ulimit -n",
            found,
            "raise it (LimitNOFILE= of the unit, nofile in limits.conf): it bounds the memory tier",
        ),
        false => Finding::ok("ulimit -n", found),
    }
}

fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or_else(|| "no limit".to_owned(), human_bytes);
    Finding::ok("ulimit -l", format!("{found}; Prebake locks no memory"))
}

/// Blocks are memfds, which count like /dev/shm against the memory of the container but not against its size.
fn shared_memory() -> Finding {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let made = memfd_create("prebake-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let sealed = made.and_then(|memory| {
        ftruncate(&memory, 4096)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)
    });
    match sealed {
        Ok(()) => Finding::ok(
            "memfd",
            "memory can be made, sealed and shared; /dev/shm is not used",
        ),
        Err(error) => Finding::fail(
            "memfd",
            format!("shared memory cannot be had: {error}"),
            "allow memfd_create in the container's seccomp profile",
        ),
    }
}

/// Whether file times agree with this machine's clock: a file's stat is trusted only once it is not of just now.
#[expect(clippy::disallowed_methods, reason = "the clock is what is looked at")]
fn clock(folder: &Path) -> Finding {
    let name = "clock";
    let probe = existing(folder).join(format!(".prebake-doctor-{}", std::process::id()));
    let before = SystemTime::now();
    let written = fs::write(&probe, b"").and_then(|()| fs::metadata(&probe)?.modified());
    let after = SystemTime::now();
    let _ = fs::remove_file(&probe);
    let Ok(written) = written else {
        let found = format!("nothing can be written to {}", existing(folder).display());
        return Finding::fail(name, found, "set PREBAKE_DIR to a folder you may write to");
    };
    let early = before.duration_since(written).unwrap_or_default();
    let skew = early.max(written.duration_since(after).unwrap_or_default());
    match skew > SKEW_MAX {
        true => Finding::warn(
            name,
            format!("file times are {skew:.1?} off"),
            "set both clocks by NTP: files that seem new are read again each time",
        ),
        false => Finding::ok(name, "file times agree with the clock"),
    }
}

fn write_protection() -> Finding {
    let name = "userfaultfd";
    match prebake_client::marks_written_pages() {
        true => Finding::ok(name, "written pages are marked by the kernel"),
        false => Finding::warn(
            name,
            "not allowed here: written pages are looked up, 0.1 ms a batch",
            "none is needed; allow userfaultfd (Linux 6.7) in the container's seccomp profile to be faster",
        ),
    }
}

fn watches() -> Finding {
    let name = "inotify";
    let path = "/proc/sys/fs/inotify/max_user_watches";
    match fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
    {
        Some(most) if most < WATCHES_MIN => Finding::warn(
            name,
            format!("{most} watches"),
            format!(
                "sysctl fs.inotify.max_user_watches={}: without, inputs are looked at one by one",
                WATCHES_MIN * 8
            ),
        ),
        Some(most) => Finding::ok(name, format!("{most} watches")),
        None => Finding::warn(
            name,
            "there is none",
            "none needed: inputs are looked at one by one",
        ),
    }
}

/// Sockets that nobody listens on, and segments that were never finished.
fn leftovers(folder: &Folder) -> Vec<Finding> {
    let name = "leftovers";
    let sockets = [folder.control_socket(), folder.data_socket()];
    let absent = matches!(Control::connect(folder), Err(e) if e.code() == Code::DaemonAbsent);
    let stale = sockets.iter().filter(|socket| absent && socket.exists());
    let stale: Vec<_> = stale.map(|socket| socket.display().to_string()).collect();
    let segments = fs::read_dir(folder.path().join("segments"))
        .into_iter()
        .flatten()
        .flatten();
    let unfinished = segments
        .filter(|file| absent && file.path().extension().is_some_and(|e| e == "tmp"))
        .count();
    if stale.is_empty() && unfinished == 0 {
        return vec![Finding::ok(name, "none")];
    }
    let found = format!(
        "{} sockets and {unfinished} unfinished segments of a daemon that was killed",
        stale.len()
    );
    vec![Finding::warn(
        name,
        found,
        "none needed: the next daemon removes them at its start",
    )]
}
