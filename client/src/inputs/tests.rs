use super::*;
use crate::clock::SystemClock;
use crate::error::Code;
use crate::files::content::observe;
use prebake_fingerprint::input;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The machine's clock, ahead by so much: files just written look old to it.
pub(super) struct Ahead(SystemClock, Duration);

impl Clock for Ahead {
    fn wall_ns(&self) -> i64 {
        self.0.wall_ns() + i64::try_from(self.1.as_nanos()).unwrap()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn now() -> Ahead {
    Ahead(SystemClock::default(), Duration::ZERO)
}

pub(super) fn later() -> Ahead {
    Ahead(SystemClock::default(), Duration::from_secs(10))
}

#[derive(Default)]
pub(super) struct Remembered(RefCell<HashMap<FileStat, Digest>>);

impl Memo for Remembered {
    fn ask(&self, stats: &[FileStat]) -> Vec<Option<Digest>> {
        let known = self.0.borrow();
        stats.iter().map(|s| known.get(s).copied()).collect()
    }

    fn remember(&self, learned: &[(FileStat, Digest)]) {
        self.0.borrow_mut().extend(learned.iter().copied());
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(temp.path().join(name), content).unwrap();
    }
    temp
}

pub(super) fn files(root: &Path, names: &[&str]) -> Inputs {
    let paths: Vec<_> = names.iter().map(|n| root.join(n)).collect();
    Inputs::files(root.to_path_buf(), Arc::new(Paths::of(&paths).unwrap()), false)
}

fn refreshed(inputs: &mut Inputs, clock: &dyn Clock) -> Vec<bool> {
    let items: Vec<usize> = (0..inputs.len()).collect();
    inputs
        .refresh(&items, &Remembered::default(), clock)
        .into_iter()
        .map(|r| r.unwrap())
        .collect()
}

#[test]
fn an_edit_changes_the_fingerprint_of_its_file_alone() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let mut inputs = files(temp.path(), &["a", "b"]);
    assert!(inputs.fingerprint(0).is_none() && !inputs.holds(0));
    assert_eq!(refreshed(&mut inputs, &later()), [false, false]);
    let before = inputs.fingerprint(0);
    assert!(inputs.holds(0) && inputs.holds(1));
    fs::write(temp.path().join("a"), "three").unwrap();
    assert!(!inputs.holds(0) && inputs.holds(1));
    assert_eq!(refreshed(&mut inputs, &later()), [true, false]);
    assert_ne!(inputs.fingerprint(0), before);
}

#[test]
fn touching_a_file_changes_its_stat_and_not_its_fingerprint() {
    let temp = folder(&[("a", "one")]);
    let mut inputs = files(temp.path(), &["a"]);
    refreshed(&mut inputs, &later());
    let path = temp.path().join("a");
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    drop(file);
    assert!(!inputs.holds(0));
    assert_eq!(refreshed(&mut inputs, &later()), [false]);
    assert!(inputs.holds(0));
}

#[test]
fn a_file_that_is_open_for_writing_where_no_time_tells_is_read_again_until_it_is_closed() {
    let temp = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(temp.path().join("a"), "one").unwrap();
    let writer = fs::File::options()
        .write(true)
        .open(temp.path().join("a"))
        .unwrap();
    let mut inputs = files(temp.path(), &["a"]);
    let memo = Remembered::default();
    inputs.refresh(&[0], &memo, &later());
    assert!(inputs.fingerprint(0).is_some());
    assert!(!inputs.holds(0) && memo.0.borrow().is_empty());
    drop(writer);
    inputs.refresh(&[0], &memo, &later());
    assert!(inputs.holds(0));
}

#[test]
fn a_racy_file_is_read_again_until_it_is_old_enough() {
    let temp = folder(&[("a", "one")]);
    let mut inputs = files(temp.path(), &["a"]);
    let memo = Remembered::default();
    assert_eq!(inputs.refresh(&[0], &memo, &now()).len(), 1);
    assert!(inputs.fingerprint(0).is_some());
    assert!(!inputs.holds(0), "its stat proves nothing yet");
    assert!(memo.0.borrow().is_empty(), "nor is it worth remembering");
    inputs.refresh(&[0], &memo, &later());
    assert!(inputs.holds(0));
    assert_eq!(memo.0.borrow().len(), 1);
}

#[test]
fn a_remembered_file_is_not_read() {
    let temp = folder(&[("a", "one")]);
    let memo = Remembered::default();
    let path = temp.path().join("a");
    let content = crate::files::content::read(&path, &later()).unwrap();
    let other = input::content(&b"other"[..]).unwrap();
    memo.remember(&[(content.stat, other)]);
    let mut inputs = files(temp.path(), &["a"]);
    inputs.refresh(&[0], &memo, &later());
    assert_eq!(inputs.fingerprint(0).unwrap(), input::item(Some(b"a"), &other));
}

#[test]
fn the_relative_path_counts_unless_ignored_and_the_root_does_not() {
    let one = folder(&[("a", "same"), ("b", "same")]);
    let two = folder(&[("a", "same")]);
    let fingerprint = |root: &Path, name: &str, path_ignored| {
        let path = Arc::new(Paths::of(&[root.join(name)]).unwrap());
        let mut inputs = Inputs::files(root.to_path_buf(), path, path_ignored);
        refreshed(&mut inputs, &later());
        inputs.fingerprint(0).unwrap()
    };
    let (one, two) = (one.path(), two.path());
    assert_eq!(fingerprint(one, "a", false), fingerprint(two, "a", false));
    assert_ne!(fingerprint(one, "a", false), fingerprint(one, "b", false));
    assert_eq!(fingerprint(one, "a", true), fingerprint(one, "b", true));
}

#[test]
fn a_missing_file_or_a_pipe_fails_alone_and_is_forgotten() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let mut inputs = files(temp.path(), &["a", "b"]);
    refreshed(&mut inputs, &later());
    fs::remove_file(temp.path().join("a")).unwrap();
    let answers = inputs.refresh(&[0, 1], &Remembered::default(), &later());
    assert_eq!(answers[0].as_ref().unwrap_err().code(), Code::InputMissing);
    assert!(answers[1].is_ok());
    assert!(inputs.fingerprint(0).is_none());
    let socket = temp.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(observe(&socket).unwrap_err().code(), Code::InputMissing);
}

#[test]
fn a_call_depends_on_its_arguments_and_all_files_below_its_inputs() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let call = |arguments: u8| {
        let roots = vec![temp.path().join("a"), temp.path().to_path_buf()];
        Inputs::call("f".to_owned(), Digest([arguments; 32]), roots)
    };
    let mut inputs = call(1);
    assert_eq!(refreshed(&mut inputs, &later()), [false]);
    let before = inputs.fingerprint(0);
    assert!(inputs.holds(0));
    let mut other = call(2);
    refreshed(&mut other, &later());
    assert_ne!(other.fingerprint(0), before);
    fs::write(temp.path().join("c"), "new").unwrap();
    assert!(!inputs.holds(0));
    assert_eq!(refreshed(&mut inputs, &later()), [true]);
    fs::remove_file(temp.path().join("c")).unwrap();
    assert_eq!(refreshed(&mut inputs, &later()), [true]);
    assert_eq!(inputs.fingerprint(0), before);
}

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A look that is due and takes a second, so that the next minute is trusted to the watch.
fn look(inputs: &mut Inputs, at: Duration, clock: &dyn Clock) {
    assert!(inputs.begin_epoch(at));
    refreshed(inputs, clock);
    inputs.looked(SECOND);
}

/// Whether a look is due after some that found nothing changed, and `change`.
fn looks_again(names: &[&str], root: &Path, change: impl FnOnce()) -> bool {
    let mut inputs = files(root, names);
    // The first learns, the second watches.
    (0..2).for_each(|i| look(&mut inputs, 2 * i * SECOND, &later()));
    change();
    inputs.begin_epoch(4 * SECOND)
}

#[test]
fn watched_files_are_looked_at_again_only_after_a_change() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let root = temp.path();
    assert!(!looks_again(&["a", "b"], root, || {}));
    assert!(looks_again(&["a", "b"], root, || fs::write(
        root.join("b"),
        "six"
    )
    .unwrap()));
}

#[test]
fn files_with_a_second_way_to_them_and_racy_ones_are_always_looked_at() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let root = temp.path();
    fs::hard_link(root.join("b"), root.join("c")).unwrap();
    std::os::unix::fs::symlink("a", root.join("d")).unwrap();
    assert!(looks_again(&["a", "b"], root, || {}));
    assert!(looks_again(&["a", "d"], root, || {}));
    let mut inputs = files(root, &["a"]);
    (0..3).for_each(|i| look(&mut inputs, 2 * i * SECOND, &now()));
}

#[test]
fn looks_that_are_far_apart_begin_no_watch() {
    let temp = folder(&[("a", "one")]);
    let mut inputs = files(temp.path(), &["a"]);
    (0..4).for_each(|i| look(&mut inputs, 101 * i * SECOND, &later()));
    assert!(matches!(inputs, Inputs::Files(Files { watch: None, .. })));
}

#[test]
fn a_file_learned_since_the_last_look_is_looked_at() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let mut inputs = files(temp.path(), &["a", "b"]);
    for i in 0..2 {
        assert!(inputs.begin_epoch(2 * i * SECOND));
        inputs.refresh(&[0], &Remembered::default(), &later());
        inputs.looked(SECOND);
    }
    assert!(!inputs.begin_epoch(4 * SECOND));
    inputs.refresh(&[1], &Remembered::default(), &later());
    assert!(inputs.begin_epoch(4 * SECOND));
}

#[test]
fn what_the_reader_looks_at_itself_is_trusted_to_the_watch_too() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let mut inputs = files(temp.path(), &["a", "b"]);
    for i in 0..2 {
        assert!(inputs.begin_epoch(2 * i * SECOND));
        refreshed(&mut inputs, &later());
        // No sweep gets to its end in time.
        (0..2).for_each(|_| inputs.looked(SECOND / 100));
    }
    assert!(!inputs.begin_epoch(3 * SECOND));
    assert!(inputs.is_looked_at(0) && inputs.is_looked_at(1));
    assert!(
        inputs.begin_epoch(4 * SECOND),
        "no longer than a hundred times as long"
    );
}

/// Looks at all that is due, a part after the other; `meanwhile` runs between a look and its note.
pub(super) fn sweep(inputs: &mut Inputs, new: bool, memo: &dyn Memo, mut meanwhile: impl FnMut(&mut Inputs)) {
    let mut next = 0;
    while let Some(mut part) = inputs.part(next, new) {
        part.look(&later());
        next = part.next;
        let asks: Vec<_> = part.asks().collect();
        part.recall(&mut memo.ask(&asks).into_iter());
        meanwhile(inputs);
        inputs.found(part);
    }
}

fn looked_at(inputs: &mut Inputs) -> Vec<bool> {
    (0..inputs.len()).map(|i| inputs.is_looked_at(i)).collect()
}

#[test]
fn nothing_is_looked_at_when_an_epoch_begins_and_a_sweep_leaves_what_changed() {
    let temp = folder(&[("a", "one"), ("b", "two"), ("c", "new")]);
    let memo = Remembered::default();
    let mut inputs = files(temp.path(), &["a", "b", "c"]);
    inputs.refresh(&[0, 1], &memo, &later());
    assert_eq!(looked_at(&mut inputs), [true, true, false]);
    fs::write(temp.path().join("b"), "edited").unwrap();
    assert!(inputs.begin_epoch(SECOND));
    assert_eq!(looked_at(&mut inputs), [false; 3]);
    sweep(&mut inputs, false, &memo, |_| {});
    assert_eq!(looked_at(&mut inputs), [true, false, false]);
    assert!(!inputs.holds(1) && inputs.holds(0));
    assert_eq!(
        inputs.refresh(&[1], &memo, &later())[0].as_ref().ok(),
        Some(&true)
    );
    assert_eq!(looked_at(&mut inputs), [true, true, false]);
}

#[test]
fn a_look_counts_for_the_epoch_in_which_it_was_begun() {
    let temp = folder(&[("a", "one")]);
    let memo = Remembered::default();
    let mut inputs = files(temp.path(), &["a"]);
    inputs.refresh(&[0], &memo, &later());
    assert!(inputs.begin_epoch(SECOND));
    sweep(&mut inputs, false, &memo, |inputs| {
        fs::write(temp.path().join("a"), "edited").unwrap();
        assert!(inputs.begin_epoch(2 * SECOND));
    });
    assert_eq!(
        looked_at(&mut inputs),
        [false],
        "it was edited before this epoch began"
    );
}

#[test]
fn a_first_sweep_takes_from_the_memo_what_it_knows_and_reads_nothing() {
    let temp = folder(&[("a", "one"), ("b", "two")]);
    let memo = Remembered::default();
    files(temp.path(), &["a"]).refresh(&[0], &memo, &later());
    let known = memo.0.borrow().len();
    let mut inputs = files(temp.path(), &["a", "b"]);
    assert!(inputs.begin_epoch(SECOND));
    sweep(&mut inputs, true, &memo, |_| {});
    assert_eq!(looked_at(&mut inputs), [true, false]);
    assert!(inputs.fingerprint(1).is_none());
    assert_eq!(memo.0.borrow().len(), known, "b was read");
}

#[test]
fn parts_for_which_the_memo_is_asked_at_once_take_each_its_own_answers() {
    let temp = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..600).map(|i| format!("{i:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exists = |i: &usize| !i.is_multiple_of(7);
    for i in (0..600).filter(exists) {
        fs::write(temp.path().join(names[i]), names[i]).unwrap();
    }
    let memo = Remembered::default();
    let remembered: Vec<usize> = (0..600).filter(|i| exists(i) && i.is_multiple_of(3)).collect();
    let mut before = files(temp.path(), &names);
    before.refresh(&remembered, &memo, &later());
    let mut inputs = files(temp.path(), &names);
    inputs.begin_epoch(SECOND);
    let mut parts: Vec<Part> = Vec::new();
    while let Some(mut part) = inputs.part(parts.last().map_or(0, |part| part.next), true) {
        part.look(&later());
        parts.push(part);
    }
    assert!(parts.len() > 1);
    assert_eq!(
        parts.iter().map(|part| part.new).sum::<usize>(),
        (0..600).filter(exists).count()
    );
    let asks: Vec<_> = parts.iter().flat_map(Part::asks).collect();
    let mut answers = memo.ask(&asks).into_iter();
    let mut recalled = 0;
    for mut part in parts {
        recalled += part.recall(&mut answers);
        inputs.found(part);
    }
    assert_eq!(recalled, remembered.len());
    for i in 0..600 {
        assert_eq!(inputs.fingerprint(i), before.fingerprint(i), "file {i}");
    }
}

#[test]
fn parts_that_the_memo_was_not_asked_for_learn_nothing() {
    let temp = folder(&[("a", "one")]);
    let mut inputs = files(temp.path(), &["a"]);
    let mut part = inputs.part(0, true).unwrap();
    part.look(&later());
    assert_eq!((part.new, part.recall(&mut std::iter::empty())), (1, 0));
    inputs.found(part);
    assert!(inputs.fingerprint(0).is_none());
}

#[test]
fn a_watch_is_quiet_only_over_files_with_one_way_to_them_whoever_looks_first() {
    let temp = folder(&[("a", "one")]);
    fs::hard_link(temp.path().join("a"), temp.path().join("b")).unwrap();
    let mut inputs = files(temp.path(), &["a"]);
    look(&mut inputs, Duration::ZERO, &later());
    assert!(inputs.begin_epoch(2 * SECOND));
    assert!(inputs.holds(0));
    sweep(&mut inputs, false, &Remembered::default(), |_| {});
    inputs.looked(SECOND);
    assert!(inputs.begin_epoch(4 * SECOND));
}

fn records(root: &Path, reads: &[&[&str]]) -> Inputs {
    let mut inputs = Inputs::records(root.to_path_buf(), Own::Places(reads.len()), false, false);
    for (i, names) in reads.iter().enumerate() {
        inputs.set_reads(i, names.iter().map(|name| root.join(name)).collect());
    }
    inputs
}

#[test]
fn a_record_is_its_number_and_the_files_it_reads_in_order() {
    let temp = folder(&[("a", "1"), ("b", "2")]);
    let mut inputs = records(temp.path(), &[&["a", "b"], &["b", "a"], &["a", "b"], &[], &[]]);
    refreshed(&mut inputs, &later());
    let all: Vec<Digest> = (0..5).map(|i| inputs.fingerprint(i).unwrap()).collect();
    for (i, a) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|b| a != b), "item {i}");
    }
    let moved = folder(&[("a", "1"), ("b", "2")]);
    let mut again = records(moved.path(), &[&["a", "b"]]);
    refreshed(&mut again, &later());
    assert_eq!(again.fingerprint(0), Some(all[0]));
}

#[test]
fn a_file_edited_under_two_records_changes_both_whichever_looks_first() {
    let temp = folder(&[("shared", "1"), ("own", "2")]);
    let mut inputs = records(temp.path(), &[&["shared"], &["own", "shared"], &["own"]]);
    refreshed(&mut inputs, &later());
    fs::write(temp.path().join("shared"), "other").unwrap();
    let memo = Remembered::default();
    let changed = |answer: Vec<Result<bool>>| answer.into_iter().map(|a| a.unwrap()).collect::<Vec<_>>();
    assert_eq!(changed(inputs.refresh(&[0], &memo, &later())), [true]);
    assert!(!inputs.holds(1), "its file was seen to change for another item");
    assert_eq!(changed(inputs.refresh(&[1, 2], &memo, &later())), [true, false]);
}

#[test]
fn a_record_without_a_file_of_its_own_has_no_fingerprint() {
    let temp = folder(&[("a", "1")]);
    let mut inputs = records(temp.path(), &[&["a"], &["missing"]]);
    let mut unknown = Inputs::records(temp.path().to_path_buf(), Own::Places(1), false, false);
    assert!(unknown.refresh(&[0], &Remembered::default(), &later())[0].is_err());
    let answers = inputs.refresh(&[0, 1], &Remembered::default(), &later());
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Code::InputMissing);
    assert!(inputs.fingerprint(0).is_some() && inputs.fingerprint(1).is_none());
}

#[test]
fn a_record_is_not_looked_at_while_its_file_is_newer_than_what_was_told() {
    let temp = folder(&[("shared", "1"), ("own", "2")]);
    let mut inputs = records(temp.path(), &[&["shared"], &["own", "shared"], &["own"], &[]]);
    let memo = Remembered::default();
    refreshed(&mut inputs, &later());
    fs::write(temp.path().join("shared"), "other").unwrap();
    assert!(inputs.begin_epoch(SECOND));
    assert_eq!(looked_at(&mut inputs), [false, false, false, true]);
    sweep(&mut inputs, false, &memo, |_| {});
    assert_eq!(looked_at(&mut inputs), [false, false, true, true]);
    inputs.refresh(&[0], &memo, &later());
    assert_eq!(
        looked_at(&mut inputs),
        [true, false, true, true],
        "1 was not told"
    );
    inputs.refresh(&[1], &memo, &later());
    assert_eq!(looked_at(&mut inputs), [true; 4]);
}
