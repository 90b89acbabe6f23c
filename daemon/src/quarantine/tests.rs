#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{file::FILES, *};
use crate::vfs::OsVfs;
use prebake_fingerprint::Operator;
use tempfile::TempDir;

fn open(folder: &TempDir) -> Result<Quarantine> {
    Quarantine::open(folder.path().to_owned(), Arc::new(OsVfs))
}

fn me() -> Domain {
    Domain("uid:1".to_owned())
}

/// A source and steps of these names, one after the other.
fn graph(steps: &[&str]) -> Graph {
    let mut operators = vec![Operator::new("source", "files")];
    operators[0].source = Some(prebake_fingerprint::Source::Arguments);
    for step in steps {
        let mut operator = Operator::new(*step, *step);
        operator.location = format!("train.py:{}", step.len());
        operator.inputs.push(prebake_fingerprint::Input {
            operator: operators[operators.len() - 1].id.clone(),
            port: 0,
        });
        operators.push(operator);
    }
    let output = operators[operators.len() - 1].id.clone();
    Graph::new(operators, &output).unwrap()
}

fn found(steps: &[&str]) -> Quarantined {
    Quarantined::new(
        &me(),
        &graph(steps),
        "7.jpg".to_owned(),
        "3 bytes differ".to_owned(),
    )
}

#[test]
fn a_subgraph_and_all_downstream_of_it_stay_until_they_are_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let quarantine = open(&folder).unwrap();
    assert!(quarantine.is_empty());
    quarantine.add(found(&["decode", "resize"])).unwrap();
    quarantine.add(found(&["decode", "resize"])).unwrap();
    // As after kill -9: nothing was closed.
    let quarantine = open(&folder).unwrap();
    assert_eq!(quarantine.len(), 1);
    let blamed = |steps: &[&str]| quarantine.blame(&me(), &graph(steps)).is_some();
    assert!(blamed(&["decode", "resize"]) && blamed(&["decode", "resize", "crop"]));
    assert!(!blamed(&["decode"]) && !blamed(&["decode", "crop"]) && !blamed(&["load", "resize"]));
    let stranger = Domain("uid:2".to_owned());
    assert!(
        quarantine
            .blame(&stranger, &graph(&["decode", "resize"]))
            .is_none()
    );
    assert!(quarantine.of(&stranger).is_empty());

    let digest = graph(&["decode", "resize"]).digest().to_string();
    assert!(quarantine.clear(&stranger, &digest).unwrap().is_empty());
    for wrong in ["", "abc", "wxyz", "\u{e9}\u{e9}\u{e9}\u{e9}", &"a".repeat(65)] {
        assert_eq!(
            quarantine.clear(&me(), wrong).unwrap_err().code(),
            "bad-digest",
            "{wrong}"
        );
    }
    assert_eq!(
        quarantine
            .clear(&me(), &digest[..8].to_uppercase())
            .unwrap()
            .len(),
        1
    );
    assert!(open(&folder).unwrap().is_empty());
}

#[test]
fn what_is_told_names_the_operator_the_item_and_what_to_do() {
    let told = found(&["decode", "resize"]).told();
    let digest = graph(&["decode", "resize"]).digest().to_string();
    let parts = [
        "R38",
        "resize at train.py:6",
        "7.jpg",
        "3 bytes differ",
        "prebake verify --clear",
        &digest[..16],
    ];
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn names_and_reasons_are_cut_and_the_list_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let long = Quarantined::new(&me(), &graph(&["decode"]), "x".repeat(9000), "y".repeat(9000));
    assert!(long.told().len() < 4096);
    let quarantine = open(&folder).unwrap();
    let numbered = |n: usize| Quarantined {
        digest: format!("{n:064x}"),
        ..found(&["decode"])
    };
    *quarantine.state.lock() = (0..QUARANTINED_MAX).map(numbered).collect();
    let refused = quarantine.add(numbered(QUARANTINED_MAX)).unwrap_err();
    assert_eq!(refused.code(), "too-many-quarantined");
    assert_eq!(quarantine.len(), QUARANTINED_MAX);
}

#[test]
fn a_list_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILES[0]), "[{").unwrap();
    let error = open(&folder).err().unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("remove both"), "{error}");
}

#[test]
fn no_flipped_bit_and_no_lost_byte_of_a_file_lifts_a_quarantine() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).unwrap().add(found(&["decode"])).unwrap();
    for name in FILES {
        let path = folder.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        let flipped = (0..8 * whole.len()).map(|bit| {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        });
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        for (n, damaged) in flipped.chain(cut).enumerate() {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(open(&folder).unwrap().len(), 1, "{name}, damage {n}");
            assert_eq!(std::fs::read(&path).unwrap(), whole, "both are whole again");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(open(&folder).unwrap().len(), 1, "{name} is gone");
    }
}

#[test]
fn a_list_of_format_1_is_read_and_written_twice() {
    let folder = tempfile::tempdir().unwrap();
    let list = serde_json::to_vec(&[found(&["decode"])]).unwrap();
    std::fs::write(folder.path().join(FILES[0]), list).unwrap();
    assert_eq!(open(&folder).unwrap().len(), 1);
    let copies = FILES.map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert!(copies[0] == copies[1] && copies[0][0] != b'[');
    std::fs::remove_file(folder.path().join(FILES[0])).unwrap();
    assert_eq!(open(&folder).unwrap().len(), 1);
}

#[test]
fn a_list_half_written_is_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).unwrap().add(found(&["decode"])).unwrap();
    std::fs::write(folder.path().join(format!("{}.new", FILES[0])), "[").unwrap();
    let quarantine = open(&folder).unwrap();
    assert_eq!(quarantine.len(), 1);
    quarantine.add(found(&["decode", "resize"])).unwrap();
    assert_eq!(open(&folder).unwrap().len(), 2);
}
