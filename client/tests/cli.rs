//! The command line, as a person uses it: real processes, a daemon of their own.
#![allow(clippy::unwrap_used, missing_docs)]

use prebake_client::{Control, Folder};
use std::{
    ffi::OsStr,
    fmt::Write,
    fs,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PREBAKE: &str = env!("CARGO_BIN_EXE_prebake");

/// A folder to work in, and a daemon that is started by the first command and killed at the end.
struct Place {
    folder: tempfile::TempDir,
    /// Where runs leave a mark: a temporary folder, which commands may write to.
    marks: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        for i in 0..3 {
            fs::write(folder.path().join(format!("raw/{i}.txt")), format!("line {i}\n")).unwrap();
        }
        let script = "mkdir -p out && for f in raw/*; do tr a-z A-Z <$f >out/${f##*/}; done\n\
                      echo done; echo careful >&2; echo x >>$RAN\n";
        fs::write(folder.path().join("clean.sh"), script).unwrap();
        let marks = tempfile::tempdir().unwrap();
        Self { folder, marks }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn prebake(&self, arguments: &[&str]) -> Output {
        Command::new(PREBAKE)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PREBAKE_DIR", self.path("cache"))
            .env("RAN", self.marks.path().join("ran"))
            .env_remove("PREBAKE")
            .output()
            .unwrap()
    }

    fn clean(&self) -> Output {
        self.prebake(&["run", "-q", "-i", "raw", "-o", "out", "--", "sh", "clean.sh"])
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.marks.path().join("ran")).map_or(0, |ran| ran.lines().count())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock file's holder is the daemon this place started.
        let lock = fs::canonicalize(self.path("cache/lock")).unwrap_or_default();
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_second_run_replays_files_streams_and_exit_code() {
    let place = Place::new();
    let first = place.clean();
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_eq!(place.runs(), 1);
    fs::set_permissions(place.path("out/1.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_dir_all(place.path("out")).unwrap();

    let second = place.clean();
    assert_eq!(place.runs(), 1, "it was not run again");
    assert_eq!(
        (second.status.code(), text(&second.stdout), text(&second.stderr)),
        (Some(0), "done\n".into(), "careful\n".into())
    );
    assert_eq!(fs::read_to_string(place.path("out/1.txt")).unwrap(), "LINE 1\n");

    let third = place.clean();
    assert!(third.status.success());
    assert_eq!(place.runs(), 1, "nor with its output in place");
}

#[test]
fn a_changed_input_script_variable_or_argument_runs_again() {
    let place = Place::new();
    place.clean();
    fs::write(place.path("raw/1.txt"), "changed\n").unwrap();
    place.clean();
    assert_eq!(place.runs(), 2, "input");
    assert_eq!(fs::read_to_string(place.path("out/1.txt")).unwrap(), "CHANGED\n");
    fs::write(place.path("raw/3.txt"), "added\n").unwrap();
    place.clean();
    assert_eq!(place.runs(), 3, "added input");
    let script = fs::read_to_string(place.path("clean.sh")).unwrap();
    fs::write(place.path("clean.sh"), format!("{script}# more\n")).unwrap();
    place.clean();
    assert_eq!(place.runs(), 4, "script");

    let with = |value: &[u8]| {
        let run = [
            "run", "-q", "-e", "LEVEL", "-i", "raw", "-o", "out", "--", "sh", "clean.sh",
        ];
        let mut command = Command::new(PREBAKE);
        command.args(run).current_dir(place.folder.path());
        command
            .env("PREBAKE_DIR", place.path("cache"))
            .env("RAN", place.marks.path().join("ran"))
            .env("LEVEL", OsStr::from_bytes(value))
            .output()
            .unwrap();
        fs::remove_dir_all(place.path("out")).unwrap();
    };
    fs::remove_dir_all(place.path("out")).unwrap();
    with(b"1");
    with(b"2");
    with(b"1");
    assert_eq!(place.runs(), 6, "variable");
    with(b"\xff");
    with(b"\xfe");
    with(b"\xff");
    assert_eq!(place.runs(), 8, "a variable that is not UTF-8");
    place.clean();
    assert_eq!(place.runs(), 9, "no variable");
}

#[test]
fn the_working_directory_counts() {
    let place = Place::new();
    fs::write(place.path("where.sh"), "pwd -P\n").unwrap();
    let script = place.path("where.sh");
    for name in ["a", "b", "a"] {
        let folder = place.path(name);
        fs::create_dir_all(&folder).unwrap();
        let run = Command::new(PREBAKE)
            .args(["run", "-q", "--", "sh"])
            .arg(&script)
            .current_dir(&folder)
            .env("PREBAKE_DIR", place.path("cache"))
            .env_remove("PREBAKE")
            .output()
            .unwrap();
        let folder = fs::canonicalize(folder).unwrap();
        assert_eq!(text(&run.stdout), format!("{}\n", folder.display()));
    }
}

#[test]
fn output_of_an_earlier_run_is_not_taken_for_this_ones() {
    let place = Place::new();
    fs::write(
        place.path("add.sh"),
        "mkdir -p out; echo new >>out/log; echo x >>$RAN\n",
    )
    .unwrap();
    fs::write(
        place.path("anew.sh"),
        "rm -rf out; mkdir out; echo new >out/log; echo x >>$RAN\n",
    )
    .unwrap();
    fs::write(
        place.path("turn.sh"),
        "mv out/log out/log.1; echo new >out/log; echo x >>$RAN\n",
    )
    .unwrap();
    let run = |script| place.prebake(&["run", "-o", "out", "--", "sh", script]);
    let log = || fs::read_to_string(place.path("out/log")).unwrap();

    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/log"), "old\n").unwrap();
    let said = text(&run("add.sh").stderr);
    assert!(
        said.contains("remove it so that the result can be kept"),
        "{said}"
    );
    fs::remove_dir_all(place.path("out")).unwrap();
    run("add.sh");
    assert_eq!((log(), place.runs()), ("new\n".into(), 2), "added to nothing");

    let said = text(&run("turn.sh").stderr);
    assert!(said.contains("out/log.1 was there before"), "{said}");
    assert_eq!(place.runs(), 3, "moved");

    let said = text(&run("anew.sh").stderr);
    assert!(said.contains("R25 it looks at"), "{said}");
    assert_eq!(place.runs(), 4, "it made all anew, but looked at what was there");
    for _ in 0..2 {
        fs::remove_dir_all(place.path("out")).unwrap();
        run("anew.sh");
        assert_eq!((log(), place.runs()), ("new\n".into(), 5), "from nothing: kept");
    }
}

#[test]
fn a_replay_that_cannot_be_printed_fails_and_does_not_run() {
    let place = Place::new();
    place.clean();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(PREBAKE)
        .args(["run", "-q", "-i", "raw", "-o", "out", "--", "sh", "clean.sh"])
        .current_dir(place.folder.path())
        .env("PREBAKE_DIR", place.path("cache"))
        .env("RAN", place.marks.path().join("ran"))
        .env_remove("PREBAKE")
        .stdout(full.try_clone().unwrap())
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!((status.code(), place.runs()), (Some(2), 1));
}

#[test]
fn who_stops_listening_is_told_no_more() {
    let place = Place::new();
    place.clean();
    for arguments in [&["status"][..], &["status", "--json"], &["explain", "clean"]] {
        let (told, listener) = UnixStream::pair().unwrap();
        drop(listener);
        let done = Command::new(PREBAKE)
            .args(arguments)
            .env("PREBAKE_DIR", place.path("cache"))
            .stdout(OwnedFd::from(told))
            .output()
            .unwrap();
        assert_eq!(
            (done.status.code(), text(&done.stderr)),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_process_left_in_the_background_does_not_hold_it() {
    let place = Place::new();
    // What it left ends by itself, so that a failure of this test leaves nothing behind.
    fs::write(place.path("leave.sh"), "sleep 20 & echo now; echo x >>$RAN\n").unwrap();
    for runs in 1..3 {
        let done = place.prebake(&["run", "--", "sh", "leave.sh"]);
        assert_eq!(text(&done.stdout), "now\n");
        let said = text(&done.stderr);
        assert!(
            said.contains("not cached: a process that it left in the background"),
            "{said}"
        );
        assert_eq!(place.runs(), runs);
    }
}

#[test]
fn failure_is_not_cached_and_its_code_comes_through() {
    let place = Place::new();
    fs::write(place.path("fail.sh"), "echo x >>$RAN; exit 7\n").unwrap();
    for runs in 1..3 {
        let failed = place.prebake(&["run", "--", "sh", "fail.sh"]);
        assert_eq!(failed.status.code(), Some(7));
        assert_eq!(place.runs(), runs);
    }
}

#[test]
fn what_cannot_be_replayed_exactly_is_run() {
    let place = Place::new();
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/mine"), "kept").unwrap();
    let run = place.prebake(&["run", "-i", "raw", "-o", "out", "--", "sh", "clean.sh"]);
    assert!(
        text(&run.stderr).contains("out/mine was there before"),
        "{}",
        text(&run.stderr)
    );
    place.clean();
    assert_eq!(place.runs(), 2);
    fs::remove_file(place.path("out/mine")).unwrap();
    fs::remove_dir_all(place.path("out")).unwrap();
    place.clean();
    fs::write(place.path("out/mine"), "kept").unwrap();
    place.clean();
    assert_eq!(
        place.runs(),
        4,
        "a stray file in the output: a replay would differ from a run"
    );
    assert_eq!(fs::read_to_string(place.path("out/mine")).unwrap(), "kept");
}

#[test]
fn bad_command_lines_are_refused_before_anything_runs() {
    let place = Place::new();
    let refused = |arguments: &[&str], says: &str| {
        let output = place.prebake(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    };
    refused(
        &["run", "-i", "missing", "--", "sh", "clean.sh"],
        "missing is not there",
    );
    refused(
        &["run", "-i", ".", "-o", "out", "--", "sh", "clean.sh"],
        "lies inside input",
    );
    refused(&["run", "--", "no-such-program"], "no such program");
    refused(&["gc", "--to", "much"], "is no size");
    assert_eq!(place.runs(), 0);
    assert!(!place.path("cache").exists());
}

#[test]
fn status_is_one_json_object_with_the_totals() {
    let place = Place::new();
    let absent = place.prebake(&["status"]);
    assert_eq!(absent.status.code(), Some(2));
    place.clean();
    place.clean();
    let status = place.prebake(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let totals = &status["totals"];
    assert_eq!(
        (totals["hits"].as_u64(), totals["misses"].as_u64()),
        (Some(2), Some(2)),
        "the list of what it reads, and the result"
    );
    assert_eq!(totals["miss_reasons"]["new graph"], 2);
    let people = text(&place.prebake(&["status"]).stdout);
    assert!(
        people.contains("2 reused (2 hits, 0 followed), 2 computed (2 new graph)"),
        "{people}"
    );
}

#[test]
fn gc_drops_nothing_unless_it_is_told_what_may_stay() {
    let place = Place::new();
    place.clean();
    let entries = || {
        let status = place.prebake(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["totals"]["entries"].as_u64()
    };
    assert_eq!(entries(), Some(2));
    // What is not written yet is not dropped in any case.
    let folder = Folder::resolve(Some(&place.path("cache"))).unwrap();
    Control::connect(&folder).unwrap().sync().unwrap();
    let refused = place.prebake(&["gc"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    for part in [
        "nothing was dropped",
        "prebake gc --to 10G",
        "--to 0 drops everything",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(refused.stdout.is_empty());
    assert!(place.prebake(&["gc", "--to", "1G"]).status.success());
    assert_eq!(entries(), Some(2), "they are fewer bytes than may stay");
    assert!(place.prebake(&["gc", "--to", "0"]).status.success());
    assert_eq!(entries(), Some(0));
}

fn graph(file: &Path, operators: &str) {
    let text = format!(r#"{{"version":1,"output":"b","operators":[{operators}]}}"#);
    fs::write(file, text).unwrap();
}

const SOURCE: &str =
    r#"{"id":"a","name":"files","source":{"files":{}},"determinism":{"deterministic":true}}"#;

fn resize(size: u32) -> String {
    format!(
        r#"{SOURCE},{{"id":"b","name":"Resize","params":{{"size":{{"integer":"{size}"}}}},
           "inputs":[{{"operator":"a"}}],"determinism":{{"deterministic":true}}}}"#
    )
}

#[test]
fn graphs_have_digests_and_differences() {
    let place = Place::new();
    graph(&place.path("a.json"), &resize(232));
    graph(&place.path("b.json"), &resize(256));
    let digest = |file| text(&place.prebake(&["fingerprint", file]).stdout);
    assert_eq!(digest("a.json").trim().len(), 64);
    assert_ne!(digest("a.json"), digest("b.json"));
    let diff = place.prebake(&["diff", "a.json", "b.json"]);
    assert_eq!(diff.status.code(), Some(1));
    assert_eq!(text(&diff.stdout), "Resize size 232 -> 256\n");
    assert_eq!(
        place.prebake(&["diff", "a.json", "a.json"]).status.code(),
        Some(0)
    );
}

#[test]
fn impossible_graphs_are_refused_by_name() {
    let place = Place::new();
    let refused = |says: &str| {
        let output = place.prebake(&["fingerprint", "g.json"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    };
    refused("No such file");
    let file = place.path("g.json");
    fs::write(&file, r#"{"version":9,"output":"b","operators":[]}"#).unwrap();
    refused("[unsupported-version]");
    let edge = |id: &str, to: &str| format!(r#"{{"id":"{id}","name":"n","inputs":[{{"operator":"{to}"}}]}}"#);
    graph(&file, &format!("{},{}", edge("a", "b"), edge("b", "a")));
    refused("[cycle]");
    let mut many = String::from(r#"{"id":"b","name":"n"}"#);
    for i in 0..1_000_000 {
        write!(many, r#",{{"id":"{i}","name":"n"}}"#).unwrap();
    }
    graph(&file, &many);
    refused("[too-many-operators]");
}

#[test]
fn a_daemon_says_why_it_cannot_start() {
    let place = Place::new();
    let serve = |dir: &Path| {
        let output = Command::new(PREBAKE)
            .arg("--dir")
            .arg(dir)
            .arg("serve")
            .output()
            .unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let long = place.path(&"d".repeat(120));
    assert!(serve(&long).contains("[socket-path-too-long]"));
    assert!(!long.exists(), "nothing is made before it is checked");
    let file = place.path("file");
    fs::write(&file, "").unwrap();
    assert!(serve(&file).contains("[folder]"));
    place.clean();
    assert!(serve(&place.path("cache")).contains("[locked]"));
}
