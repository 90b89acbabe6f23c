//! `prebake run` watches what a command reads: real programs, a daemon of their own, folders that are not temporary.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PREBAKE: &str = env!("CARGO_BIN_EXE_prebake");

struct Place {
    folder: tempfile::TempDir,
    /// The daemon's folder, and where runs leave a mark: temporary, which commands may write to.
    aside: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            aside: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs with one output, `out`, which is removed before.
    fn prebake(&self, options: &[&str], command: &[&str]) -> Output {
        let _ = fs::remove_dir_all(self.path("out"));
        self.again(options, command)
    }

    fn again(&self, options: &[&str], command: &[&str]) -> Output {
        let mut prebake = Command::new(PREBAKE);
        prebake
            .args(["run", "-o", "out"])
            .args(options)
            .arg("--")
            .args(command);
        prebake
            .current_dir(self.folder.path())
            .env("PREBAKE_DIR", self.aside.path().join("cache"));
        prebake
            .env("RAN", self.aside.path().join("ran"))
            .env_remove("PREBAKE")
            .env_remove("PYTHONDONTWRITEBYTECODE");
        prebake.output().unwrap()
    }

    /// Runs `script.py`, which starts by leaving a mark; how often it ran in all.
    fn python(&self) -> usize {
        let done = self.prebake(&[], &["python3", "script.py"]);
        assert!(done.status.success(), "{}", said(&done));
        self.runs()
    }

    fn script(&self, text: &str) {
        let mark = "import os; os.makedirs('out'); print('x', file=open(os.environ['RAN'], 'a'))\n";
        self.write("script.py", &format!("{mark}{text}"));
    }

    fn runs(&self) -> usize {
        let ran = fs::read_to_string(self.aside.path().join("ran"));
        ran.map_or(0, |ran| ran.lines().count())
    }

    fn out(&self) -> String {
        fs::read_to_string(self.path("out/x")).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock file's holder is the daemon this place started.
        let lock = fs::canonicalize(self.aside.path().join("cache/lock")).unwrap_or_default();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let fds = fs::read_dir(process.path().join("fd"))
                .into_iter()
                .flatten()
                .flatten();
            let holds = fds
                .filter_map(|fd| fs::read_link(fd.path()).ok())
                .any(|to| to == lock);
            if let (true, Ok(pid)) = (holds, process.file_name().to_string_lossy().parse::<i32>()) {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn touch(path: &Path) {
    let later = filetime();
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(later).set_accessed(later))
        .unwrap();
}

fn filetime() -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)
}

/// Reads an undeclared file by each of several ways; edited, it runs again, and touched, it does not.
#[test]
fn an_undeclared_file_counts_however_it_is_read() {
    let read = [
        ("open", "open('out/x', 'w').write(open('data/a').read())"),
        (
            "ctypes",
            "import ctypes; c = ctypes.CDLL(None); c.fopen.restype = ctypes.c_void_p; b = ctypes.create_string_buffer(9)\n\
             c.fread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]\n\
             c.fread(b, 1, 8, c.fopen(b'data/a', b'r')); open('out/x', 'wb').write(b.value)",
        ),
        (
            "child",
            "import subprocess; subprocess.run('cp data/a out/x', shell=True, check=True)",
        ),
        (
            "thread",
            "import threading\nt = threading.Thread(target=lambda: open('out/x', 'w').write(open('data/a').read()))\n\
             t.start(); t.join()",
        ),
        (
            "dir_fd",
            "f = os.open('data', os.O_RDONLY); f = os.open('a', os.O_RDONLY, dir_fd=f)\nopen('out/x', 'wb').write(os.read(f, 9))",
        ),
        (
            "mmap",
            "import mmap; f = open('data/a'); open('out/x', 'wb').write(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:])",
        ),
    ];
    for (name, script) in read {
        let place = Place::new();
        place.write("data/a", "one");
        place.script(script);
        assert_eq!((place.python(), place.out()), (1, "one".into()), "{name}");
        assert_eq!(
            (place.python(), place.out()),
            (1, "one".into()),
            "{name}: replayed"
        );
        place.write("data/a", "two");
        assert_eq!((place.python(), place.out()), (2, "two".into()), "{name}: edited");
        touch(&place.path("data/a"));
        touch(&place.path("script.py"));
        assert_eq!(
            (place.python(), place.out()),
            (2, "two".into()),
            "{name}: touched"
        );
        place.write("data/a", "one");
        assert_eq!(
            (place.python(), place.out()),
            (2, "one".into()),
            "{name}: as it was"
        );
    }
}

#[test]
fn an_edited_script_module_or_module_of_a_module_runs_again() {
    let place = Place::new();
    place.write("helper.py", "import deeper\ndef f(): return deeper.g()\n");
    place.write("deeper.py", "def g(): return '1'\n");
    place.script("import helper; open('out/x', 'w').write(helper.f())");
    assert_eq!(place.python(), 1);
    assert!(place.path("__pycache__").exists(), "Python kept its bytecode");
    assert_eq!((place.python(), place.out()), (1, "1".into()));
    // Of another size: with the same size in the same second, Python itself runs the old bytecode.
    place.write("deeper.py", "def g(): return '22'\n");
    assert_eq!((place.python(), place.out()), (2, "22".into()));
    assert_eq!(place.python(), 2);
    fs::remove_dir_all(place.path("__pycache__")).unwrap();
    touch(&place.path("helper.py"));
    touch(&place.path("deeper.py"));
    assert_eq!(
        (place.python(), place.out()),
        (2, "22".into()),
        "bytecode comes and goes"
    );
    place.script("import helper; open('out/x', 'w').write(helper.f() + '!')");
    assert_eq!((place.python(), place.out()), (3, "22!".into()));
}

#[test]
fn a_file_looked_for_and_absent_runs_again_once_it_is_there() {
    let place = Place::new();
    place.script("open('out/x', 'w').write(str(os.path.exists('flag')))");
    place.python();
    assert_eq!((place.python(), place.out()), (1, "False".into()));
    place.write("flag", "");
    assert_eq!((place.python(), place.out()), (2, "True".into()));
    fs::remove_file(place.path("flag")).unwrap();
    assert_eq!((place.python(), place.out()), (2, "False".into()));
    place.script("try: open('out/x', 'w').write(open('more/file').read())\nexcept OSError: open('out/x', 'w').write('none')");
    place.python();
    assert_eq!((place.python(), place.out()), (3, "none".into()));
    place.write("more/file", "some");
    assert_eq!((place.python(), place.out()), (4, "some".into()));
}

#[test]
fn a_listed_folder_counts_by_its_names_and_an_opened_one_does_not() {
    let place = Place::new();
    place.write("data/a", "");
    place.script("open('out/x', 'w').write(' '.join(sorted(os.listdir('data'))))");
    place.python();
    assert_eq!((place.python(), place.out()), (1, "a".into()));
    place.write("data/b", "");
    assert_eq!((place.python(), place.out()), (2, "a b".into()));
    place.write("data/b", "content");
    assert_eq!(place.python(), 2, "only its names were read");
    place.script("os.open('data', os.O_RDONLY)");
    place.python();
    place.write("data/c", "");
    assert_eq!(place.python(), 3);
}

#[test]
fn a_folder_without_files_counts_below_a_declared_input_too() {
    let place = Place::new();
    place.write("data/a/1", "");
    place.script("open('out/x', 'w').write(' '.join(sorted(os.listdir('data'))))");
    let run = || {
        let done = place.prebake(&["-i", "data"], &["python3", "script.py"]);
        assert!(done.status.success(), "{}", said(&done));
        (place.runs(), place.out())
    };
    assert_eq!((run(), run()), ((1, "a".into()), (1, "a".into())));
    fs::create_dir(place.path("data/b")).unwrap();
    assert_eq!((run(), run()), ((2, "a b".into()), (2, "a b".into())));
}

#[test]
fn a_link_counts_and_so_does_what_it_leads_to() {
    let place = Place::new();
    place.write("one/a", "1");
    place.write("two/a", "2");
    symlink("one", place.path("link")).unwrap();
    place.script("open('out/x', 'w').write(open('link/a').read())");
    place.python();
    assert_eq!((place.python(), place.out()), (1, "1".into()));
    fs::remove_file(place.path("link")).unwrap();
    symlink("two", place.path("link")).unwrap();
    assert_eq!((place.python(), place.out()), (2, "2".into()));
    place.write("two/a", "3");
    assert_eq!((place.python(), place.out()), (3, "3".into()));
}

#[test]
fn what_a_run_reads_may_depend_on_what_it_read() {
    let place = Place::new();
    place.write("a", "from a");
    place.write("b", "from b");
    place.write("which", "a");
    place.script("open('out/x', 'w').write(open(open('which').read()).read())");
    place.python();
    assert_eq!((place.python(), place.out()), (1, "from a".into()));
    place.write("which", "b");
    assert_eq!((place.python(), place.out()), (2, "from b".into()));
    assert_eq!((place.python(), place.out()), (2, "from b".into()));
    place.write("b", "other b");
    assert_eq!((place.python(), place.out()), (3, "other b".into()));
    place.write("which", "a");
    assert_eq!((place.python(), place.out()), (3, "from a".into()));
}

#[test]
fn a_program_that_is_linked_statically_is_watched() {
    let place = Place::new();
    place.write(
        "main.c",
        "#include <stdio.h>\nint main() { char b[9] = {0}; fread(b, 1, 8, fopen(\"data\", \"r\")); puts(b); }\n",
    );
    let mut compiler = Command::new("cc");
    compiler
        .args(["-static", "-o", "reader", "main.c"])
        .current_dir(place.folder.path());
    assert!(compiler.status().unwrap().success());
    for (content, replayed) in [("one", false), ("one", true), ("two", false), ("two", true)] {
        place.write("data", content);
        let done = place.prebake(&[], &["./reader"]);
        assert_eq!(String::from_utf8_lossy(&done.stdout), format!("{content}\n"));
        assert_eq!(
            said(&done).contains("replayed"),
            replayed,
            "{content}: {}",
            said(&done)
        );
    }
}

/// What is not kept, and why; the exit code is the command's.
#[test]
fn what_nothing_tells_of_is_not_kept() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("import socket; socket.create_connection(('127.0.0.1', {port}))");
    for (script, why) in [
        (connect.as_str(), "R22 it uses the network (127.0.0.1:"),
        ("open('log', 'w').write('x')", "R32 it changes "),
        ("os.unlink('log')", "R32 it changes "),
        (
            "import subprocess; subprocess.Popen(['sleep', '8'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
            "R23 it left processes in the background",
        ),
    ] {
        place.script(script);
        let before = place.runs();
        for runs in 1..3 {
            let done = place.prebake(&[], &["python3", "script.py"]);
            if script.contains("unlink") && runs == 2 {
                break;
            }
            assert_eq!(done.status.code(), Some(0), "{}", said(&done));
            assert!(said(&done).contains(why), "{script}: {}", said(&done));
            assert_eq!(place.runs(), before + runs);
        }
    }
    let failed = place.prebake(&[], &["sh", "-c", "echo >log; exit 7"]);
    assert_eq!(failed.status.code(), Some(7));
}

#[test]
fn output_made_from_earlier_output_is_not_kept() {
    let place = Place::new();
    let edit = ["sh", "-c", "mkdir -p out; echo x >>$RAN; sed -i s/a/ab/ out/x"];
    place.write("out/x", "a\n");
    for runs in 1..3 {
        let done = place.again(&[], &edit);
        assert!(done.status.success());
        assert!(said(&done).contains("not cached: "), "{}", said(&done));
        assert_eq!(
            (place.runs(), place.out()),
            (runs, format!("a{}\n", "b".repeat(runs)))
        );
    }
    let count = [
        "sh",
        "-c",
        "n=$(ls out | wc -l); rm -rf out; mkdir out; echo $n >out/x",
    ];
    let done = place.again(&[], &count);
    assert!(said(&done).contains("not cached: R25"), "{}", said(&done));
    assert_eq!(place.out(), "1\n");
    place.prebake(&[], &count);
    assert_eq!(place.out(), "0\n");
}

#[test]
fn a_file_that_changes_while_it_runs_is_not_taken_for_what_was_read() {
    let place = Place::new();
    place.write("data", "old");
    // It reads, waits for the edit, and then writes what it read.
    place.script(
        "import time; read = open('data').read(); open(os.environ['RAN'] + '.read', 'w')\n\
         while not os.path.exists(os.environ['RAN'] + '.go'): time.sleep(0.02)\n\
         open('out/x', 'w').write(read)",
    );
    let mark = |end: &str| place.aside.path().join(format!("ran.{end}"));
    std::thread::scope(|scope| {
        let run = scope.spawn(|| place.prebake(&[], &["python3", "script.py"]));
        while !mark("read").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        place.write("data", "new");
        fs::write(mark("go"), "").unwrap();
        let done = run.join().unwrap();
        assert!(said(&done).contains("changed while it ran"), "{}", said(&done));
    });
    assert_eq!((place.python(), place.out()), (2, "new".into()));
}

#[test]
fn variables_count_unless_they_are_ignored_or_all_is_declared() {
    let place = Place::new();
    let run = |options: &[&str], level: &str| {
        let mut prebake = Command::new(PREBAKE);
        prebake
            .args(["run", "-q"])
            .args(options)
            .args(["--", "sh", "-c", "echo $LEVEL"]);
        prebake
            .current_dir(place.folder.path())
            .env("PREBAKE_DIR", place.aside.path().join("cache"));
        let done = prebake
            .env("LEVEL", level)
            .env("TERM", level)
            .env_remove("PREBAKE")
            .output()
            .unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!((run(&[], "1"), run(&[], "2")), ("1\n".into(), "2\n".into()));
    let ignoring = ["--ignore-env", "LEV*"];
    assert_eq!(
        (run(&ignoring, "1"), run(&ignoring, "2")),
        ("1\n".into(), "1\n".into())
    );
    let declared = ["--declared-only", "--env", "LEVEL"];
    assert_eq!(
        (run(&declared, "1"), run(&declared, "2")),
        ("1\n".into(), "2\n".into())
    );
}

#[test]
fn where_it_cannot_be_traced_it_is_not_cached_unless_told_to() {
    let place = Place::new();
    for (options, why) in [
        ("", "not cached: R23 it cannot be traced here"),
        ("--declared-only", "kept 1 files"),
    ] {
        let script = format!("{PREBAKE} run -o out {options} -- sh -c 'mkdir out; echo x >out/x' 2>&1");
        let mut outer = Command::new(PREBAKE);
        outer.args(["trace", "--report", "/dev/null", "--", "sh", "-c", &script]);
        outer
            .current_dir(place.folder.path())
            .env("PREBAKE_DIR", place.aside.path().join("cache"));
        // The daemon is not to be started by who is traced.
        place.prebake(&[], &["true"]);
        let done = outer.env_remove("PREBAKE").output().unwrap();
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(told.contains(why), "{told}");
        assert_eq!(place.out(), "x\n");
    }
}

#[test]
fn with_declared_only_nothing_is_watched() {
    let place = Place::new();
    place.write("data/a", "one");
    place.script("open('out/x', 'w').write(open('data/a').read()); open('log', 'w')");
    let run = |options: &[&str]| {
        let done = place.prebake(options, &["python3", "script.py"]);
        assert!(done.status.success(), "{}", said(&done));
        place.out()
    };
    assert_eq!(run(&["--declared-only"]), "one");
    place.write("data/a", "two");
    assert_eq!(run(&["--declared-only"]), "one", "it was not declared");
    assert_eq!(run(&["--declared-only", "-i", "data"]), "two");
    assert_eq!(place.runs(), 2);
}
