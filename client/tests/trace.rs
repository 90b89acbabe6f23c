//! What a traced command is said to read, with real programs. Folders are outside of the temporary ones.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::Value;
use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const PREBAKE: &str = env!("CARGO_BIN_EXE_prebake");

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, command: &[&str]) -> Command {
        let mut prebake = Command::new(PREBAKE);
        prebake
            .args(["trace", "-o", "out", "--report"])
            .arg(self.path("report.json"));
        prebake.arg("--").args(command).current_dir(self.0.path());
        prebake
    }

    fn report(&self) -> Report {
        let text = fs::read(self.path("report.json")).unwrap();
        Report(serde_json::from_slice(&text).unwrap())
    }

    fn trace(&self, command: &[&str]) -> Report {
        let done = self.command(command).output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
        self.report()
    }

    fn python(&self, script: &str) -> Report {
        self.write("script.py", script);
        self.trace(&["python3", "script.py"])
    }
}

struct Report(Value);

impl Report {
    fn has(&self, list: &str, path: &Path) -> bool {
        let list = self.0[list].as_array().unwrap();
        list.iter()
            .any(|one| one.as_str() == path.to_str() || one[0].as_str() == path.to_str())
    }

    fn complete(&self) -> &Self {
        assert_eq!(self.0["why"], "");
        assert_eq!(self.0["complete"], true);
        self
    }

    fn incomplete(&self, why: &str) {
        assert_eq!(self.0["complete"], false);
        assert!(self.0["why"].as_str().unwrap().contains(why), "{}", self.0["why"]);
    }

    fn empty(&self, list: &str) -> &Self {
        assert_eq!(self.0[list], serde_json::json!([]), "{list}");
        self
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_opened_by_python_by_c_in_threads_and_in_children_are_reads() {
    let place = Place::new();
    let names = ["plain", "by_c", "thread", "child", "relative"];
    let paths = names.map(|name| place.write(&format!("data/{name}"), name));
    let report = place.python(
        "import ctypes, os, subprocess, threading\n\
         open('data/plain').read()\n\
         c = ctypes.CDLL(None); c.fopen.restype = ctypes.c_void_p\n\
         assert c.fopen(b'data/by_c', b'r')\n\
         t = threading.Thread(target=lambda: open('data/thread').read()); t.start(); t.join()\n\
         subprocess.run(['cat', 'data/child'], check=True)\n\
         folder = os.open('data', os.O_RDONLY)\n\
         os.open('relative', os.O_RDONLY, dir_fd=folder)\n",
    );
    report
        .complete()
        .empty("writes")
        .empty("network")
        .empty("leftovers");
    for path in &paths {
        assert!(report.has("reads", path), "{}", path.display());
    }
    assert!(report.has("reads", &place.path("script.py")));
    assert!(!report.has("reads", &place.path("data")));
}

#[test]
fn what_is_read_before_a_command_says_that_it_is_loaded_is_told_apart() {
    let place = Place::new();
    let (early, both, late) = (
        place.write("early", "e"),
        place.write("both", "b"),
        place.write("late", "l"),
    );
    let report = place.python(
        "import os\nopen('early').read(); open('both').read()\n\
         assert not os.access('/dev/.prebake-loaded', os.F_OK)\n\
         open('both').read(); open('late').read()\n",
    );
    report.complete();
    assert!(
        [&early, &both, &late]
            .iter()
            .all(|path| report.has("reads", path))
    );
    assert!(report.has("loaded", &early) && report.has("loaded", &both) && !report.has("loaded", &late));
    place.python("open('early').read()").empty("loaded");
}

#[test]
fn worker_processes_are_followed_however_they_are_started() {
    let place = Place::new();
    let paths = ["0", "1", "2", "3"].map(|name| place.write(&format!("data/{name}"), name));
    for method in ["fork", "spawn", "forkserver"] {
        let report = place.python(&format!(
            "import multiprocessing\ndef f(i): return open(f'data/{{i}}').read()\n\
             if __name__ == '__main__':\n\
             \x20   with multiprocessing.get_context('{method}').Pool(2) as p: p.map(f, range(4))\n"
        ));
        report.complete().empty("writes").empty("network");
        assert!(paths.iter().all(|path| report.has("reads", path)), "{method}");
    }
}

#[test]
fn a_statically_linked_program_is_followed_and_counts_itself() {
    let place = Place::new();
    place.write(
        "main.c",
        "#include <stdio.h>\nint main() { return !fopen(\"data\", \"r\"); }\n",
    );
    let mut compiler = Command::new("cc");
    compiler
        .args(["-static", "-o", "reader", "main.c"])
        .current_dir(place.0.path());
    let compiled = compiler.status().unwrap();
    assert!(compiled.success());
    let data = place.write("data", "x");
    let report = place.trace(&["./reader"]);
    report.complete();
    assert!(report.has("reads", &data));
    assert!(report.has("reads", &place.path("reader")));
}

#[test]
fn a_script_counts_with_its_interpreter_and_its_linker() {
    let place = Place::new();
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let script = place.write("script", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let report = place.trace(&["./script"]);
    report.complete();
    assert!(report.has("reads", &script));
    assert!(report.has("reads", &shell));
    let reads = report.0["reads"].to_string();
    assert!(reads.contains("ld-linux"), "{reads}");
}

#[test]
fn names_looked_for_links_and_listed_folders_are_told() {
    let place = Place::new();
    let target = place.write("real/file", "x");
    symlink("real", place.path("link")).unwrap();
    let report = place.python(
        "import os\n\
         open('link/file').read()\n\
         assert not os.path.exists('absent')\n\
         try: open('real/missing')\nexcept FileNotFoundError: pass\n\
         os.stat('real/file'); os.listdir('real'); os.open('real', os.O_RDONLY)\n",
    );
    report.complete();
    assert!(report.has("reads", &target));
    assert!(report.has("seen", &place.path("link")));
    assert!(report.has("absent", &place.path("absent")));
    assert!(report.has("absent", &place.path("real/missing")));
    assert!(report.has("listed", &place.path("real")));
    let opened = place.python("import os; os.open('real', os.O_RDONLY)");
    assert!(!opened.has("listed", &place.path("real")), "opened, not listed");
}

#[test]
fn what_it_wrote_itself_is_no_read_and_only_writes_elsewhere_are_told() {
    let place = Place::new();
    let kept = place.write("kept", "x");
    let report = place.python(
        "import os, tempfile\n\
         os.makedirs('out/a'); open('out/a/b', 'w').write('x'); open('out/a/b').read()\n\
         with tempfile.TemporaryDirectory() as t:\n\
         \x20   open(t + '/x', 'w').write('x'); os.rename(t + '/x', t + '/y'); open(t + '/y').read()\n",
    );
    report.complete().empty("writes").empty("leftovers");
    assert!(!report.0["reads"].to_string().contains("out/a/b"));
    assert!(!report.0["reads"].to_string().contains("/y\""));
    for (change, path) in [
        ("open('new', 'w')", "new"),
        ("os.chmod('kept', 0o600)", "kept"),
        ("os.utime('kept')", "kept"),
        ("os.mkdir('folder')", "folder"),
        ("os.fchmod(os.open('kept', os.O_RDONLY), 0o644)", "kept"),
        ("os.rename('kept', 'moved')", "moved"),
    ] {
        let report = place.python(&format!("import os\n{change}\n"));
        assert!(report.has("writes", &place.path(path)), "{change}");
    }
    assert!(!kept.exists());
}

#[test]
fn what_lay_in_an_output_before_is_told_when_it_is_read() {
    let place = Place::new();
    let old = place.write("out/x", "old\n");
    for command in [
        &["sed", "-i", "s/old/new/", "out/x"][..],
        &["cat", "out/x"],
        &["ls", "out"],
    ] {
        let report = place.trace(command);
        assert!(report.has("leftovers", &old), "{command:?}");
    }
}

#[test]
fn talking_to_anyone_is_told_and_talking_to_oneself_is_not() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let report = place.python(&format!(
        "import socket; socket.create_connection(('127.0.0.1', {}))",
        address.port()
    ));
    assert_eq!(report.0["network"], serde_json::json!([address.to_string()]));
    let report = place.python(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.sendto(b'x', ('127.0.0.1', 9)); s.sendmsg([b'x'], [], 0, ('127.0.0.1', 10))\n",
    );
    assert_eq!(
        report.0["network"],
        serde_json::json!(["127.0.0.1:10", "127.0.0.1:9"])
    );
    let _service = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    let report = place.python("import socket; socket.socket(socket.AF_UNIX).connect('socket')");
    assert!(report.0["network"][0].as_str().unwrap().ends_with("/socket"));
    let report = place.python(
        "import os, socket, tempfile\n\
         name = tempfile.mkdtemp() + '/own'\n\
         s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()\n\
         socket.socket(socket.AF_UNIX).connect(name)\n\
         a, b = socket.socketpair(); a.send(b'x')\n",
    );
    report.complete().empty("network");
    let report = place.python("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()");
    assert_eq!(report.0["network"], serde_json::json!(["listens"]));
}

#[test]
fn streams_and_exit_code_come_through() {
    let place = Place::new();
    let mut child = place.command(&["sh", "-c", "cat; echo err >&2; exit 7"]);
    let child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"in").unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(
        (done.status.code(), &*done.stdout, &*done.stderr),
        (Some(7), &b"in"[..], &b"err\n"[..])
    );
    assert_eq!(place.report().0["exit"], 7);
    let killed = place.command(&["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(killed.status.code(), Some(137));
    assert_eq!(place.report().0["signal"], 9);
    let none = place.command(&["./no-such-program"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(said(&none).contains("No such file"), "{}", said(&none));
}

#[test]
fn what_would_escape_makes_it_incomplete() {
    let place = Place::new();
    place
        .trace(&["sh", "-c", "sleep 8 & exit 0"])
        .incomplete("in the background");
    place.trace(&["unshare", "-r", "true"]).incomplete("mounted");
    place.write("secret", "x");
    let mut inheriting = Command::new("sh");
    let script = format!("exec 7<secret; {PREBAKE} trace --report report.json -- \"$@\"");
    inheriting.args(["-c", &script, "sh"]).current_dir(place.0.path());
    assert!(
        inheriting
            .args(["sh", "-c", "cat <&7"])
            .status()
            .unwrap()
            .success()
    );
    place.report().incomplete("was open before as 7");
    let mut closing = Command::new("sh");
    closing.args(["-c", &script, "sh"]).current_dir(place.0.path());
    place.write("other", "x");
    let reopen = "import os; os.close(7); os.dup2(os.open('other', os.O_RDONLY), 7); os.read(7, 1)";
    assert!(
        closing
            .args(["python3", "-c", reopen])
            .status()
            .unwrap()
            .success()
    );
    place.report().complete();
}

#[test]
fn where_it_cannot_be_traced_it_runs_and_says_so() {
    let place = Place::new();
    // Who is traced cannot be traced by another.
    let inner = "\"$0\" trace --report inner.json -- sh -c 'echo ran; exit 7'";
    let done = place.command(&["sh", "-c", inner, PREBAKE]).output().unwrap();
    assert_eq!((done.status.code(), &*done.stdout), (Some(7), &b"ran\n"[..]));
    let text = fs::read(place.path("inner.json")).unwrap();
    Report(serde_json::from_slice(&text).unwrap()).incomplete("cannot be traced here");
}

#[test]
fn ways_through_proc_lead_to_files() {
    let place = Place::new();
    let file = place.write("data/file", "x");
    let report = place.python(
        "import os\nopen('/proc/self/cwd/data/file').read()\n\
         assert not os.path.exists('/proc/self/cwd/data/absent')\n\
         os.open('/proc/self/root/etc/passwd', os.O_RDONLY)\n",
    );
    assert!(report.complete().has("reads", &file));
    assert!(report.has("absent", &place.path("data/absent")));
    assert!(report.has("reads", Path::new("/etc/passwd")));
}

#[test]
fn a_process_left_in_the_background_goes_on_as_if_nobody_looked() {
    let place = Place::new();
    place.write("late", "read after the end\n");
    // It waits to be told, and ends by itself in any case.
    let script = "(for i in $(seq 200); do [ -e go ] && break; sleep 0.05; done
                   cat late >copy.part; mv copy.part copy) >/dev/null 2>&1 & echo now";
    let done = place.command(&["sh", "-c", script]).output().unwrap();
    assert_eq!(&*done.stdout, b"now\n");
    assert!(!place.path("copy").exists(), "it was not waited for");
    place.write("go", "");
    for _ in 0..100 {
        if place.path("copy").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        fs::read_to_string(place.path("copy")).unwrap(),
        "read after the end\n"
    );
}

#[test]
fn killing_the_one_who_asked_ends_the_command() {
    let place = Place::new();
    let script = "echo $$ >out.pid; sleep 20";
    let mut asking = place.command(&["sh", "-c", script]).spawn().unwrap();
    let pid = loop {
        let pid = fs::read_to_string(place.path("out.pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<i32>() {
            break pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    asking.kill().unwrap();
    asking.wait().unwrap();
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    });
    assert!(gone);
}

#[test]
fn names_that_are_not_utf_8_are_lists_of_bytes() {
    let place = Place::new();
    let report = place.python("import os\ntry: open(b'\\xff')\nexcept OSError: pass");
    let mut bytes = place.path("").into_os_string().into_encoded_bytes();
    bytes.push(0xff);
    let absent = report.complete().0["absent"].as_array().unwrap();
    assert!(absent.contains(&serde_json::json!(bytes)));
}

impl Place {
    /// Runs a Python script as a trial.
    fn trial(&self, script: &str) -> Report {
        self.write("script.py", script);
        let mut command = Command::new(PREBAKE);
        command
            .args(["trace", "--trial", "--report"])
            .arg(self.path("report.json"));
        command
            .args(["--", "python3", "script.py"])
            .current_dir(self.0.path());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
        self.report()
    }
}

/// Looks for what tells that the preparations are over.
const BEGIN: &str = "import os, sqlite3, tempfile\nos.access('/dev/.prebake-loaded', os.F_OK)\n";

#[cfg(target_arch = "x86_64")]
#[test]
fn a_trial_changes_no_file_that_it_did_not_make() {
    for (change, file) in [
        ("open('new.txt', 'w')", "new.txt"),
        ("open('old.txt', 'w')", "old.txt"),
        ("f = open('old.txt', 'a'); f.write('more'); f.flush()", "old.txt"),
        ("os.truncate('old.txt', 1)", "old.txt"),
        (
            "f = os.open('old.txt', os.O_RDWR); os.pwrite(f, b'x', 0)",
            "old.txt",
        ),
        ("f = os.open('old.txt', os.O_RDWR); os.ftruncate(f, 0)", "old.txt"),
        (
            "f, g = os.open('script.py', 0), os.open('old.txt', 1); os.sendfile(g, f, 0, 9)",
            "old.txt",
        ),
        ("os.remove('gone.txt')", "gone.txt"),
        ("os.rename('gone.txt', 'other.txt')", "gone.txt"),
        ("os.replace('script.py', 'old.txt')", "script.py"),
        ("os.link('old.txt', 'other.txt')", "old.txt"),
        ("os.symlink('old.txt', 'other.txt')", "other.txt"),
        ("os.mkdir('other')", "other"),
        ("os.chmod('old.txt', 0o600)", "old.txt"),
        ("os.utime('old.txt', (1, 1))", "old.txt"),
    ] {
        let place = Place::new();
        place.write("old.txt", "old");
        place.write("gone.txt", "gone");
        let report = place.trial(&format!(
            "{BEGIN}before = os.stat('old.txt')\ntry:\n    {change}\nexcept OSError as e:\n    assert e.errno == 30, e\nelse:\n    \
             raise SystemExit('it was let')\nassert before.st_mtime_ns == os.stat('old.txt').st_mtime_ns"
        ));
        assert!(
            report.has("refused", &place.path(file)),
            "{change}: {}",
            report.0["refused"]
        );
        assert_eq!(
            fs::read_to_string(place.path("old.txt")).unwrap(),
            "old",
            "{change}"
        );
        let mut there: Vec<_> = fs::read_dir(place.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        there.sort();
        assert_eq!(
            there,
            ["gone.txt", "old.txt", "report.json", "script.py"],
            "{change}"
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_trial_writes_to_no_database_and_reads_from_all() {
    for journal in ["delete", "wal", "truncate", "persist"] {
        let place = Place::new();
        let base = place.path("base.db");
        let make = format!(
            "import sqlite3\nc = sqlite3.connect('base.db')\nc.execute('pragma journal_mode = {journal}')\n\
             c.execute('create table t (k)')\nc.execute('insert into t values (7)')\nc.commit()\nc.close()"
        );
        place.write("make.py", &make);
        place.trace(&["python3", "make.py"]);
        let before = fs::read(&base).unwrap();
        let script = "import os, sqlite3\nos.access('/dev/.prebake-loaded', os.F_OK)\nc = sqlite3.connect('base.db')\n\
                      assert c.execute('select k from t').fetchall() == [(7,)]\n\
                      try:\n    c.execute('insert into t values (8)')\n    c.commit()\n\
                      except sqlite3.OperationalError:\n    pass\nelse:\n    raise SystemExit('it was let')";
        let report = place.trial(script);
        assert_ne!(report.0["refused"], serde_json::json!([]), "{journal}");
        // Nor did it leave a journal, by which the next to open it would take back what came since.
        place.write(
            "look.py",
            "import sqlite3\nprint(sqlite3.connect('base.db').execute('select k from t').fetchall())",
        );
        let seen = Command::new("python3")
            .arg("look.py")
            .current_dir(place.0.path())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&seen.stdout).trim(),
            "[(7,)]",
            "{journal}"
        );
        assert_eq!(fs::read(&base).unwrap(), before, "{journal}");
    }
}

#[test]
fn a_trial_has_temporary_files_and_what_it_held_open() {
    let place = Place::new();
    place.write("log.txt", "");
    let script = "import os, tempfile\nlog = open('log.txt', 'a')\nos.access('/dev/.prebake-loaded', os.F_OK)\n\
                  log.write('said')\nlog.flush()\nwith tempfile.TemporaryDirectory() as folder:\n    \
                  open(os.path.join(folder, 'a'), 'w').write('a')\n    os.rename(os.path.join(folder, 'a'), \
                  os.path.join(folder, 'b'))\nopen('/dev/null', 'w').write('x')";
    place.trial(script).empty("refused");
    assert_eq!(fs::read_to_string(place.path("log.txt")).unwrap(), "said");
}
