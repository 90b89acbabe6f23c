//! A real daemon in a temporary folder, and jobs that use it.

#![allow(dead_code, missing_docs, reason = "each test program uses some of it")]
#![allow(clippy::unwrap_used, reason = "it is a test")]

use prebake_client::{Acquired, Clock, Control, Folder, Items, Job, Made, Options, Paths, SystemClock};
use prebake_proto::v1::{Determinism, Files, Graph, Input, Operator, Source, determinism, source};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of each test element unless a test says otherwise: no multiple of a page, so that elements share pages.
pub const ELEMENT_BYTES: usize = 150_001;

/// How often a daemon that starts is looked for, and how many times.
const POLL: Duration = Duration::from_millis(10);
const POLLS_MAX: usize = 1000;

/// How often a wait for other jobs asks whether to go on, once every 100 ms, before a test fails.
const ASKED_MAX: usize = 100;

/// The machine's clock ten seconds ahead, for which files just written are old enough to trust their stat.
pub struct Ahead(SystemClock);

impl Clock for Ahead {
    fn wall_ns(&self) -> i64 {
        self.0.wall_ns() + 10_000_000_000
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The daemon's binary, which cargo puts above the test programs.
pub fn binary() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let binary = exe.parent().unwrap().parent().unwrap().join("prebaked");
    assert!(binary.exists(), "build it first: cargo build -p prebake-daemon");
    binary
}

/// A daemon, ended by force with the test.
pub struct Daemon {
    pub folder: TempDir,
    arguments: Vec<String>,
    child: Child,
}

impl Daemon {
    pub fn start(arguments: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let daemon = Daemon {
            child: spawn(folder.path(), &arguments),
            folder,
            arguments,
        };
        daemon.wait();
        daemon
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.folder.path(), &self.arguments);
        self.wait();
    }

    fn wait(&self) {
        let folder = Folder::resolve(Some(self.folder.path())).unwrap();
        for _ in 0..POLLS_MAX {
            if Control::connect(&folder).is_ok_and(|c| c.status().is_ok()) {
                return;
            }
            std::thread::sleep(POLL);
        }
        panic!("the daemon does not start");
    }

    pub fn job(&self, name: &str) -> Job {
        connect(self.folder.path(), name)
    }

    pub fn control(&self) -> Control {
        Control::connect(&Folder::resolve(Some(self.folder.path())).unwrap()).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(binary());
    command.arg("--dir").arg(folder).args(arguments);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Of a daemon that a test did not start itself.
pub fn daemon_pid(folder: &Path) -> rustix::process::Pid {
    let socket = UnixStream::connect(folder.join("prebake.sock")).unwrap();
    rustix::net::sockopt::socket_peercred(&socket).unwrap().pid
}

pub fn connect(folder: &Path, name: &str) -> Job {
    Job::connect(options(folder, name)).unwrap()
}

pub fn options(folder: &Path, name: &str) -> Options {
    Options {
        folder: Some(folder.to_path_buf()),
        name: name.to_owned(),
        clock: Some(Arc::new(Ahead(SystemClock::default()))),
        ..Options::default()
    }
}

/// Files | decode, where `version` stands for a parameter of the decoder.
pub fn graph(version: &str) -> Graph {
    let deterministic = || {
        let class = Some(determinism::Class::Deterministic(true));
        Some(Determinism { class })
    };
    let files = Operator {
        id: "files".to_owned(),
        name: "files".to_owned(),
        determinism: deterministic(),
        source: Some(Source {
            kind: Some(source::Kind::Files(Files::default())),
        }),
        ..Operator::default()
    };
    let decode = Operator {
        id: "decode".to_owned(),
        name: "decode".to_owned(),
        version: version.to_owned(),
        determinism: deterministic(),
        inputs: vec![Input {
            operator: "files".to_owned(),
            port: 0,
        }],
        ..Operator::default()
    };
    Graph {
        version: 1,
        operators: vec![files, decode],
        output: "decode".to_owned(),
    }
}

/// A folder of files 0.. whose content is their number.
pub struct Data(pub TempDir, pub Vec<PathBuf>);

pub fn data(count: usize) -> Data {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..count).map(|i| folder.path().join(i.to_string())).collect();
    for (i, path) in paths.iter().enumerate() {
        fs::write(path, i.to_string()).unwrap();
    }
    Data(folder, paths)
}

impl Data {
    pub fn items(&self, job: &Job) -> Items {
        let collection = job.plan(graph("1")).unwrap();
        let paths = Arc::new(Paths::of(&self.1).unwrap());
        collection.files(Some(self.0.path()), paths).unwrap()
    }

    /// What the pipeline makes of item `i` as its file is now: its number, over and over.
    pub fn element(&self, i: usize) -> Vec<u8> {
        let text = fs::read_to_string(&self.1[i]).unwrap();
        let number: usize = text.parse().unwrap();
        (0..ELEMENT_BYTES)
            .map(|k| ((number * 31 + k) % 253) as u8)
            .collect()
    }
}

pub fn all(items: &Items) -> Vec<usize> {
    (0..items.len()).collect()
}

/// Gives up a wait in which nothing happens, long before leases run out.
pub fn patience() -> impl FnMut() -> bool {
    let mut asked = 0;
    move || {
        asked += 1;
        asked > ASKED_MAX
    }
}

/// Puts these items' elements.
pub fn fill(items: &Items, data: &Data, compute: &[usize]) {
    for &i in compute {
        let element = data.element(i);
        let (left, right) = element.split_at(ELEMENT_BYTES / 3);
        let cost = Made {
            cpu_ns: 1000,
            io_ns: 10,
            read_back: false,
        };
        assert!(items.put(i, "layout", &[left, right], cost).unwrap());
    }
    items.commit().unwrap();
}

/// Makes every wanted item readable and maps it; which of them had to be computed here.
pub fn ensure(items: &Items, data: &Data, wanted: &[usize]) -> Vec<usize> {
    let mut computed = Vec::new();
    loop {
        let Acquired { compute, bypass } = items.acquire(wanted, &[], wanted.len(), &mut patience()).unwrap();
        assert!(bypass.is_empty(), "{bypass:?}");
        if compute.is_empty() {
            return computed;
        }
        fill(items, data, &compute);
        computed.extend(compute);
    }
}
