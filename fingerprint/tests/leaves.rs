//! Differences of leaves, in words, with the code of the miss each makes.
mod common;

use common::{at, graph, op, source, with};
use prebake_fingerprint::{Digest, Graph, Leaf, LeafKind, Operator, Value, compare, diff};

/// A leaf whose digest is that of what is shown.
fn leaf(kind: LeafKind, path: &str, shown: &str, location: &str) -> Leaf {
    let mut digest = [0; 16];
    for (i, byte) in shown.bytes().enumerate() {
        digest[i % 16] ^= byte.rotate_left(i as u32);
    }
    Leaf {
        path: path.into(),
        kind,
        digest,
        shown: if kind == LeafKind::Code {
            String::new()
        } else {
            shown.into()
        },
        location: location.into(),
    }
}

/// What a shim says of `Resize(232)` with a helper.
fn leaves() -> Vec<Leaf> {
    vec![
        leaf(LeafKind::Code, "__class__.__call__", "v1", "train.py:30"),
        leaf(LeafKind::Argument, "size", "[232]", ""),
        leaf(LeafKind::Code, "__class__.__call__ -> helper", "v1", "aug.py:31"),
        leaf(LeafKind::Default, "__class__.__call__ -> helper.gamma", "1.0", ""),
        leaf(LeafKind::Closure, "__class__.__call__ -> helper.table", "", ""),
        leaf(LeafKind::Global, "__class__.__call__ -> helper -> SCALE", "2", ""),
        leaf(LeafKind::Version, "package torchvision", "'0.29.1'", ""),
        leaf(LeafKind::Environment, "[env] SR", "16000", ""),
    ]
}

fn pipeline(leaves: Vec<Leaf>, code: u8) -> Vec<Operator> {
    let mut resize = at(op("resize", "train.Resize", &["src"]), "train.py:41");
    resize.code = Some(Digest([code; 32]));
    resize.leaves = leaves;
    vec![source("src"), resize, op("crop", "train.Crop", &["resize"])]
}

/// The first difference and its code when one leaf is another.
fn edited(place: usize, shown: &str) -> (String, &'static str, usize) {
    let mut after = leaves();
    let Leaf {
        kind, path, location, ..
    } = after[place].clone();
    after[place] = leaf(kind, &path, shown, &location);
    let found = diff(
        &graph(pipeline(leaves(), 1), "crop"),
        &graph(pipeline(after, 2), "crop"),
    );
    (found[0].to_string(), found[0].kind.code(), found.len())
}

#[test]
fn each_kind_of_leaf_has_its_words_and_its_code() {
    let expected: [(usize, &str, &str, &str); 8] = [
        (0, "v2", "Resize code changed train.py:30", "M11"),
        (1, "[256]", "Resize size [232] -> [256] train.py:41", "M12"),
        (2, "v2", "helper code changed aug.py:31", "M11"),
        (3, "2.0", "Resize default gamma 1.0 -> 2.0 train.py:41", "M12"),
        (
            4,
            "x",
            "Resize closure table digest 00000000 -> x train.py:41",
            "M12",
        ),
        (5, "3", "global SCALE 2 -> 3 train.py:41", "M13"),
        (
            6,
            "'0.29.2'",
            "package torchvision 0.29.1 -> 0.29.2 train.py:41",
            "M14",
        ),
        (7, "22050", "environment SR 16000 -> 22050 train.py:41", "M16"),
    ];
    for (place, shown, words, code) in expected {
        assert_eq!(edited(place, shown), (words.into(), code, 1));
    }
}

#[test]
fn a_version_comes_before_what_it_is_part_of_unless_it_is_new() {
    let first = |change: fn(&mut Vec<Leaf>)| {
        let mut after = leaves();
        change(&mut after);
        let (a, b) = (
            graph(pipeline(leaves(), 1), "crop"),
            graph(pipeline(after, 2), "crop"),
        );
        diff(&a, &b)[0].to_string()
    };
    let both = first(|l| {
        l[1] = leaf(LeafKind::Argument, "size", "[256]", "");
        l[6] = leaf(LeafKind::Version, "package torchvision", "0.30", "");
    });
    assert_eq!(both, "package torchvision 0.29.1 -> 0.30 train.py:41");
    let new = first(|l| {
        l[2] = leaf(LeafKind::Code, "__class__.__call__ -> helper", "v2", "aug.py:31");
        l.insert(0, leaf(LeafKind::Version, "package scipy", "1.0", ""));
    });
    assert_eq!(new, "helper code changed aug.py:31");
}

#[test]
fn leaves_are_no_part_of_any_digest_and_differ_only_where_the_code_does() {
    let (a, b) = (
        graph(pipeline(leaves(), 1), "crop"),
        graph(pipeline(Vec::new(), 1), "crop"),
    );
    assert_eq!(
        (a.digest(), a.shape(), a.canonical()),
        (b.digest(), b.shape(), b.canonical())
    );
    let mut other = pipeline(Vec::new(), 1);
    other[2].name = "train.Pad".into();
    assert_eq!(
        diff(&a, &graph(other, "crop")).len(),
        2,
        "Crop removed, Pad added"
    );
}

#[test]
fn parameters_give_leaves_their_values_and_are_not_told_twice() {
    let with_param = |size: i64, code: u8, shown: &str| {
        let mut operators = pipeline(leaves(), code);
        let path = operators[1].leaves[1].path.clone();
        operators[1].leaves[1] = Leaf {
            shown: String::new(),
            ..leaf(LeafKind::Argument, &path, shown, "")
        };
        operators[1] = with(operators[1].clone(), "size", Value::Int(size));
        graph(operators, "crop")
    };
    let found = diff(&with_param(232, 1, "a"), &with_param(256, 2, "b"));
    let words: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["Resize size 232 -> 256 train.py:41"]);
}

#[test]
fn without_leaves_parameters_and_packages_come_before_the_code_as_such() {
    let of = |size: i64, version: &str, code: u8| {
        let packages = Value::Map([("numpy".to_owned(), Value::Text(version.into()))].into());
        let mut operators = pipeline(Vec::new(), code);
        operators[1] = with(
            with(operators[1].clone(), "size", Value::Int(size)),
            "packages",
            packages,
        );
        graph(operators, "crop")
    };
    let words = |a: &Graph, b: &Graph| {
        let found = diff(a, b);
        let told = found.iter().map(|d| format!("{} {d}", d.kind.code()));
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        words(&of(1, "2.0", 1), &of(2, "2.0", 2)),
        [
            "M12 Resize size 1 -> 2 train.py:41",
            "M11 Resize code 01010101 -> 02020202 train.py:41"
        ]
    );
    assert_eq!(
        words(&of(1, "2.0", 1), &of(1, "2.1", 2))[0],
        "M14 package numpy 2.0 -> 2.1 train.py:41"
    );
}

#[test]
fn every_operator_says_how_it_stands_to_its_partner() {
    let mut after = leaves();
    after[1] = leaf(LeafKind::Argument, &after[1].path, "[256]", "");
    let mut b = pipeline(after, 2);
    b.push(op("pad", "train.Pad", &["crop"]));
    let steps = compare(&graph(pipeline(leaves(), 1), "crop"), &graph(b, "pad"));
    let stands: Vec<_> = steps
        .iter()
        .map(|s| (&*s.operator, s.equal, s.is_shared(), s.differences.len()))
        .collect();
    assert_eq!(
        stands,
        [
            ("files", true, true, 0),
            ("Resize", false, true, 1),
            ("Crop", false, true, 0),
            ("Pad", false, false, 1)
        ]
    );
}

#[test]
fn notes_restore_what_a_canonical_form_leaves_out() {
    let a = graph(pipeline(leaves(), 1), "crop");
    let mut back = Graph::from_canonical(a.canonical()).unwrap();
    back.annotate(a.notes());
    let mut after = leaves();
    after[5] = leaf(LeafKind::Global, &after[5].path, "3", "");
    let b = graph(pipeline(after, 2), "crop");
    assert_eq!(diff(&back, &b)[0].to_string(), "global SCALE 2 -> 3 train.py:41");
    back.forget_leaves();
    assert_eq!(
        diff(&back, &b)[0].to_string(),
        "Resize code 01010101 -> 02020202 train.py:41"
    );
}
