//! Differences, in words.
mod common;

use common::{at, class, eval, graph, input, ints, op, source, with};
use prebake_fingerprint::{Determinism, Digest, Operator, Source, Value, diff};

fn words(a: Vec<Operator>, b: Vec<Operator>, output: &str) -> Vec<String> {
    let (a, b) = (graph(a, output), graph(b, output));
    diff(&a, &b).iter().map(ToString::to_string).collect()
}

fn edited(change: impl FnOnce(&mut Vec<Operator>)) -> Vec<String> {
    let mut b = eval();
    change(&mut b);
    words(eval(), b, "crop")
}

#[test]
fn no_difference() {
    assert!(edited(|_| ()).is_empty());
    assert!(edited(|b| b.reverse()).is_empty());
    assert!(edited(|b| b.push(op("dead", "x", &[]))).is_empty());
}

#[test]
fn a_changed_parameter() {
    assert_eq!(
        edited(|b| drop(b[2].params.insert("size".into(), ints(&[232])))),
        ["Resize size [256] -> [232] train.py:41"]
    );
    assert_eq!(
        edited(|b| drop(b[3].params.insert("size".into(), Value::Real(224.0)))),
        ["CenterCrop size 224 -> 224.0 train.py:42"]
    );
    assert_eq!(
        edited(|b| drop(b[2].params.insert("antialias".into(), Value::Bool(true)))),
        ["Resize antialias (none) -> true train.py:41"]
    );
    assert_eq!(
        edited(|b| drop(b[2].params.remove("size"))),
        ["Resize size [256] -> (none) train.py:41"]
    );
}

#[test]
fn long_values_are_cut_and_still_told_apart() {
    let long = |end: &str| Value::Text("x".repeat(5000) + end);
    let of = |v| vec![with(op("a", "f", &[]), "p", v)];
    let found = words(of(long("1")), of(long("2")), "a");
    let (before, after) = found[0].split_once(" -> ").unwrap();
    assert!(
        found[0].len() < 500 && before.trim_start_matches("f p ") != after,
        "{found:?}"
    );
}

#[test]
fn version_code_seed_determinism_source() {
    assert_eq!(
        edited(|b| b[1].version = "12.0".into()),
        ["open version 11.0 -> 12.0"]
    );
    assert_eq!(edited(|b| b[1].version.clear()), ["open version 11.0 -> (none)"]);
    assert_eq!(
        edited(|b| b[1].code = Some(Digest([0xab; 32]))),
        ["open code (none) -> abababab"]
    );
    assert_eq!(
        edited(|b| b[1].determinism = Determinism::Random),
        ["open determinism deterministic -> random"]
    );
    assert_eq!(
        edited(|b| b[0].source = Some(Source::Snapshot("v3".into()))),
        ["files source files -> snapshot \"v3\""]
    );
    let seeded = |seed| vec![class(op("a", "shuffle", &[]), Determinism::Seeded(seed))];
    assert_eq!(words(seeded(1), seeded(2), "a"), ["shuffle seed 1 -> 2"]);
}

#[test]
fn the_first_difference_comes_first() {
    let found = edited(|b| {
        b[3].params.insert("size".into(), Value::Int(200));
        b[0].source = Some(Source::Files { path_ignored: true });
        b[2].version = "0.20".into();
    });
    assert_eq!(
        found,
        [
            "files source files -> files (path ignored)",
            "Resize version (none) -> 0.20 train.py:41",
            "CenterCrop size 224 -> 200 train.py:42"
        ]
    );
}

#[test]
fn an_added_operator_comes_before_a_later_change() {
    let found = edited(|b| {
        b[3].params.insert("size".into(), Value::Int(200));
        b.push(op("flip", "Flip", &["decode"]));
        b[2].inputs[0] = input("flip", 0);
    });
    assert_eq!(
        found,
        ["Flip added after open", "CenterCrop size 224 -> 200 train.py:42"]
    );
}

#[test]
fn added_and_removed_operators() {
    let mut longer = eval();
    longer.push(at(op("flip", "Flip", &["resize"]), "train.py:50"));
    longer[3].inputs[0] = input("flip", 0);
    assert_eq!(
        words(eval(), longer.clone(), "crop"),
        ["Flip added after Resize train.py:50"]
    );
    assert_eq!(
        words(longer, eval(), "crop"),
        ["Flip removed from after Resize train.py:50"]
    );
    // A second Resize before the first: the first one is not said to have changed.
    let mut second = eval();
    second.push(with(
        op("first", "torchvision.transforms.v2.Resize", &["decode"]),
        "size",
        ints(&[512]),
    ));
    second[2].inputs[0] = input("first", 0);
    assert_eq!(words(eval(), second, "crop"), ["Resize#2 added after open"]);
}

#[test]
fn reordered_operators() {
    let chain = |names: [&str; 4]| {
        let mut operators = vec![source("src")];
        let mut below = "src";
        for name in names {
            operators.push(op(name, name, &[below]));
            below = name;
        }
        operators
    };
    assert_eq!(
        words(
            chain(["decode", "resize", "flip", "end"]),
            chain(["decode", "flip", "resize", "end"]),
            "end"
        ),
        ["resize moved from after decode to after flip"]
    );
    assert_eq!(
        words(
            chain(["decode", "resize", "flip", "end"]),
            chain(["resize", "flip", "decode", "end"]),
            "end"
        ),
        ["decode moved from after files to after flip"]
    );
}

#[test]
fn changed_edges() {
    let zip = |l: &str, lp: u32, r: &str, after: &[&str]| {
        let mut z = op("z", "zip", &[]);
        z.inputs = vec![input(l, lp), input(r, 0)];
        z.after = after.iter().map(|s| (*s).into()).collect();
        vec![
            with(op("l", "read", &[]), "f", Value::Int(1)),
            with(op("r", "read", &[]), "f", Value::Int(2)),
            z,
        ]
    };
    let plain = || zip("l", 0, "r", &[]);
    assert_eq!(
        words(plain(), zip("l", 1, "r", &[]), "z"),
        ["zip inputs [read#1, read#2] -> [read#1:1, read#2]"]
    );
    let swapped = words(plain(), zip("r", 0, "l", &[]), "z");
    assert_eq!(swapped, ["zip inputs [read#1, read#2] -> [read#2, read#1]"]);
    assert_eq!(
        words(plain(), zip("l", 0, "r", &["l"]), "z"),
        ["zip runs after (none) -> read#1"]
    );
}

#[test]
fn nothing_in_common() {
    let found = words(vec![source("a")], vec![op("a", "other", &[])], "a");
    assert_eq!(found, ["files removed", "other added"]);
}
