//! What the canonical form leaves out, and what it must keep.
mod common;

use common::{class, eval, graph, input, ints, op, refused, source, with};
use prebake_fingerprint::{
    Determinism, Digest, Graph, Operator, Value,
    rules::{IDENTITIES, RULES, Scope},
};

fn digest(operators: Vec<Operator>, output: &str) -> Digest {
    graph(operators, output).digest()
}

/// A name that a rule covers.
fn covered(scope: Scope) -> String {
    match scope {
        Scope::Own => "decode_jpeg".into(),
        Scope::Named(name) => name.into(),
        Scope::Under(prefix) => format!("{prefix}map"),
    }
}

#[test]
fn execution_only_parameters_do_not_count() {
    for rule in RULES {
        let name = covered(rule.scope);
        let with_value = |value| {
            digest(
                vec![source("s"), with(op("o", &name, &["s"]), rule.parameter, value)],
                "o",
            )
        };
        let without = digest(vec![source("s"), op("o", &name, &["s"])], "o");
        assert_eq!(with_value(Value::Int(1)), without, "{rule:?}");
        assert_eq!(with_value(Value::Int(8)), without, "{rule:?}");
    }
}

#[test]
fn rules_spare_own_code_sources_randomness_and_other_packages() {
    let differs = |change: &dyn Fn(Operator) -> Operator, up: Operator| {
        let of = |workers| {
            let knob = with(op("o", "decode_jpeg", &["s"]), "num_workers", Value::Int(workers));
            let mut knob = change(knob);
            if knob.source.is_some() {
                knob.inputs.clear();
            }
            digest(vec![up.clone(), knob], "o")
        };
        of(1) != of(8)
    };
    assert!(!differs(&|o| o, source("s")));
    assert!(differs(
        &|mut o| {
            o.code = Some(Digest([1; 32]));
            o
        },
        source("s")
    ));
    assert!(differs(
        &|mut o| {
            o.source = source("x").source;
            o
        },
        source("s")
    ));
    assert!(differs(&|o| class(o, Determinism::Seeded(1)), source("s")));
    assert!(differs(
        &|o| o,
        class(op("s", "augment", &[]), Determinism::Seeded(1))
    ));
    assert!(differs(
        &|mut o| {
            o.name = "torch.utils.data.DataLoader".into();
            o
        },
        source("s")
    ));
}

#[test]
fn no_rule_clears_a_seed_or_a_shuffle_buffer() {
    assert!(
        RULES
            .iter()
            .all(|rule| !rule.parameter.contains("seed") && !rule.reason.is_empty())
    );
    for (name, parameter) in [
        ("shuffle", "buffer_size"),
        ("shuffle", "seed"),
        ("decode_jpeg", "device"),
    ] {
        let of = |v| {
            digest(
                vec![source("s"), with(op("o", name, &["s"]), parameter, Value::Int(v))],
                "o",
            )
        };
        assert_ne!(of(1), of(2), "{name} {parameter}");
    }
}

#[test]
fn identity_operators_do_not_count() {
    let plain = || vec![source("s"), op("a", "decode", &["s"])];
    for identity in IDENTITIES {
        assert!(!identity.reason.is_empty());
        let mut at_the_end = plain();
        at_the_end.push(with(op("i", identity.name, &["a"]), "buffer_size", Value::Int(4)));
        let counts = identity.name == "identity";
        assert_eq!(
            digest(at_the_end, "i") == digest(plain(), "a"),
            !counts,
            "{identity:?}"
        );
        let in_the_middle = vec![
            source("s"),
            op("i", identity.name, &["s"]),
            op("j", identity.name, &["i"]),
            op("a", "decode", &["j"]),
        ];
        let graph = graph(in_the_middle, "a");
        assert_eq!(graph.digest(), digest(plain(), "a"));
        assert_eq!(graph.canonical(), common::graph(plain(), "a").canonical());
        assert_eq!(graph.digest_of("j"), graph.digest_of("s"));
    }
    // One that takes another output, draws random numbers or has code is none.
    let mut other = op("i", "identity", &["s"]);
    other.inputs[0].port = 1;
    assert_ne!(
        digest(vec![source("s"), other], "i"),
        digest(vec![source("s")], "s")
    );
    let random = class(op("i", "identity", &["s"]), Determinism::Random);
    assert_ne!(
        digest(vec![source("s"), random], "i"),
        digest(vec![source("s")], "s")
    );
}

#[test]
fn only_ancestors_count_and_prefixes_stand_alone() {
    let whole = graph(eval(), "crop");
    let mut more = eval();
    more.push(op("dead", "resize", &["decode"]));
    assert_eq!(digest(more, "crop"), whole.digest());
    assert_eq!(whole.digest_of("decode"), Some(graph(eval(), "decode").digest()));
    assert_eq!(whole.digest_of("nothing"), None);
}

#[test]
fn equal_operators_merge() {
    let twice = vec![
        source("a"),
        source("b"),
        op("x", "f", &["a"]),
        op("y", "f", &["b"]),
        op("z", "zip", &["x", "y"]),
    ];
    let once = vec![source("a"), op("x", "f", &["a"]), op("z", "zip", &["x", "x"])];
    assert_eq!(graph(twice, "z").canonical(), graph(once, "z").canonical());
}

#[test]
fn edges_count() {
    let zip = |edges: &[(&str, u32)], after: &[&str]| {
        let mut z = op("z", "zip", &[]);
        z.inputs = edges.iter().map(|(id, port)| input(id, *port)).collect();
        z.after = after.iter().map(|id| (*id).into()).collect();
        let (a, b) = (op("a", "one", &[]), op("b", "two", &[]));
        digest(vec![a, b, z], "z")
    };
    let plain = zip(&[("a", 0), ("b", 0)], &[]);
    assert_ne!(plain, zip(&[("b", 0), ("a", 0)], &[]));
    assert_ne!(plain, zip(&[("a", 1), ("b", 0)], &[]));
    assert_ne!(plain, zip(&[("a", 0), ("b", 0)], &["a"]));
    assert_ne!(plain, zip(&[("a", 0)], &["b"]));
    assert_eq!(zip(&[("a", 0)], &["a", "b"]), zip(&[("a", 0)], &["b", "a", "b"]));
}

#[test]
fn value_types_and_bits_count() {
    let values = [
        Value::Null,
        Value::Bool(false),
        Value::Bool(true),
        Value::Int(0),
        Value::Int(1),
        Value::Int(i64::MIN),
        Value::Real(0.0),
        Value::Real(-0.0),
        Value::Real(1.0),
        Value::Real(f64::INFINITY),
        Value::Real(f64::NEG_INFINITY),
        Value::Real(f64::NAN),
        Value::Real(-f64::NAN),
        Value::Text(String::new()),
        Value::Text("1".into()),
        Value::Text("null".into()),
        Value::Bytes(b"1".to_vec()),
        Value::Bytes(vec![7; 32]),
        Value::Digest(Digest([7; 32])),
        Value::List(vec![]),
        ints(&[1]),
        ints(&[1, 1]),
        Value::List(vec![ints(&[1, 1])]),
        Value::Map([].into()),
        Value::Map([("int".into(), Value::Int(1))].into()),
    ];
    let mut seen = std::collections::HashMap::new();
    for value in values {
        let graph = graph(vec![with(op("a", "x", &[]), "p", value.clone())], "a");
        let again = Graph::from_canonical(graph.canonical()).unwrap();
        assert_eq!(again.operators()[0].params["p"], value);
        let other = seen.insert(graph.digest(), value.clone());
        assert!(other.is_none(), "{value:?} and {other:?}");
    }
}

#[test]
fn the_shape_keeps_names_and_types_only() {
    let shape = |change: &dyn Fn(&mut Operator)| {
        let mut operators = eval();
        change(&mut operators[2]);
        graph(operators, "crop").shape()
    };
    let plain = shape(&|_| ());
    assert_eq!(plain, shape(&|o| o.version = "2".into()));
    assert_eq!(plain, shape(&|o| o.code = Some(Digest([1; 32]))));
    assert_eq!(
        plain,
        shape(&|o| *o.params.get_mut("size").unwrap() = ints(&[1, 2, 3]))
    );
    assert_ne!(
        plain,
        shape(&|o| *o.params.get_mut("size").unwrap() = Value::Int(256))
    );
    assert_ne!(plain, shape(&|o| o.name = "Other".into()));
    assert_ne!(
        plain,
        shape(&|o| drop(o.params.insert("more".into(), Value::Null)))
    );
    assert_ne!(plain, shape(&|o| o.determinism = Determinism::Seeded(1)));
    assert_eq!(
        shape(&|o| o.determinism = Determinism::Seeded(1)),
        shape(&|o| o.determinism = Determinism::Seeded(2))
    );
}

#[test]
fn determinism_flows_downstream_and_names_the_first_culprit() {
    let line = |classes: [Determinism; 3]| {
        let [a, b, c] = classes;
        graph(
            vec![
                class(op("a", "x", &[]), a),
                class(op("b", "x", &["a"]), b),
                class(op("c", "x", &["b"]), c),
            ],
            "c",
        )
    };
    use Determinism::{Deterministic, Random, Seeded, Unknown};
    let graph = line([Deterministic, Deterministic, Deterministic]);
    assert!(graph.determinism().is_cacheable() && graph.blame().is_none());
    let graph = line([Seeded(3), Deterministic, Seeded(4)]);
    assert!(graph.determinism().is_cacheable());
    assert_eq!(
        (graph.determinism(), &*graph.blame().unwrap().id),
        (&Seeded(3), "a")
    );
    let graph = line([Seeded(3), Random, Random]);
    assert!(!graph.determinism().is_cacheable());
    assert_eq!(graph.blame().unwrap().id, "b");
    let graph = line([Random, Unknown("C code".into()), Deterministic]);
    assert!(!graph.determinism().is_cacheable());
    assert_eq!(graph.blame().unwrap().id, "b");
    assert_eq!(graph.determinism().to_string(), "unknown (C code)");
    // What the output does not need is not to blame.
    let graph = common::graph(vec![source("s"), class(op("r", "x", &["s"]), Random)], "s");
    assert!(graph.determinism().is_cacheable());
}

#[test]
fn pipelines_read_from_the_source() {
    assert_eq!(graph(eval(), "crop").pipeline(), "open | Resize | CenterCrop");
    assert_eq!(graph(eval(), "src").pipeline(), "files");
    let command = graph(vec![op("a", "python clean.py", &[])], "a");
    assert_eq!(command.pipeline(), "python clean.py");
    assert_eq!(refused(vec![], "x"), "missing-output");
}
