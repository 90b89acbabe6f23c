//! Graphs on the wire and as JSON.
#![allow(clippy::unwrap_used, reason = "tests")]

use prebake_fingerprint::{FileStat, Graph, Value};
use prebake_proto::{graph::NOT_DECLARED, leaf::trim, v1};
use prost::Message;
use serde_json::{Value as Json, json};

/// Every kind of value, class and source.
fn every_kind() -> Json {
    json!({
        "version": 1,
        "output": "z",
        "operators": [
            {"id": "f", "name": "files", "source": {"files": {"pathIgnored": true}}, "determinism": {"deterministic": true}},
            {"id": "a", "name": "call", "source": {"arguments": true}, "determinism": {"seeded": "-7"}},
            {"id": "l", "name": "bytes", "source": {"literal": "AAEC"}, "determinism": {"random": true}},
            {"id": "s", "name": "table", "source": {"snapshot": "v3"}, "determinism": {"unknown": "C code"}},
            {"id": "z", "name": "zip", "version": "1.2", "codeDigest": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
             "location": "train.py:41", "after": ["f", "a"],
             "inputs": [{"operator": "l"}, {"operator": "s", "port": 2}],
             "params": {
                 "null": {"null": true}, "false": {"boolean": false}, "int": {"integer": "-9223372036854775808"},
                 "real": {"real": 0.1}, "nan": {"real": "NaN"}, "inf": {"real": "-Infinity"}, "text": {"text": "é"},
                 "bytes": {"bytes": "/w=="}, "list": {"list": {"values": [{"integer": "1"}, {"list": {}}]}},
                 "map": {"map": {"entries": {"k": {"null": true}}}},
                 "digest": {"digest": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="}
             }}
        ]
    })
}

fn small() -> Json {
    json!({"version": 1, "output": "a", "operators": [
        {"id": "a", "name": "x", "determinism": {"deterministic": true}, "params": {"p": {"integer": "1"}}}
    ]})
}

fn parse(json: &Json) -> v1::Graph {
    serde_json::from_str(&json.to_string()).unwrap()
}

fn code(json: &Json) -> &'static str {
    Graph::try_from(parse(json)).map_err(|e| e.code()).unwrap_err()
}

/// The small graph with one field of its operator replaced.
fn with(field: &str, value: Json) -> Json {
    let mut json = small();
    json["operators"][0][field] = value;
    json
}

#[test]
fn every_kind_survives_json_and_protobuf() {
    let survives = |graph: &Graph, again: v1::Graph| {
        let again = Graph::try_from(again).unwrap();
        assert_eq!(again.operators(), graph.operators());
        assert_eq!(
            (again.digest(), again.canonical()),
            (graph.digest(), graph.canonical())
        );
    };
    let graph = Graph::try_from(parse(&every_kind())).unwrap();
    survives(
        &graph,
        v1::Graph::decode(&v1::Graph::from(&graph).encode_to_vec()[..]).unwrap(),
    );
    assert_eq!(
        Graph::from_canonical(graph.canonical()).unwrap().digest(),
        graph.digest()
    );
    // JSON is read with infinities, but written without: what was written is refused, never another graph.
    let mut finite = every_kind();
    let text = serde_json::to_string(&v1::Graph::from(&graph)).unwrap();
    assert_eq!(code(&serde_json::from_str(&text).unwrap()), "malformed-message");
    for name in ["nan", "inf"] {
        finite["operators"][4]["params"]
            .as_object_mut()
            .unwrap()
            .remove(name);
    }
    let graph = Graph::try_from(parse(&finite)).unwrap();
    survives(
        &graph,
        serde_json::from_str(&serde_json::to_string(&v1::Graph::from(&graph)).unwrap()).unwrap(),
    );
}

#[test]
fn what_is_not_declared_is_unknown() {
    let graph = Graph::try_from(parse(&with("determinism", Json::Null))).unwrap();
    assert_eq!(
        graph.determinism().to_string(),
        format!("unknown ({NOT_DECLARED})")
    );
    assert!(!graph.determinism().is_cacheable());
}

#[test]
fn other_versions_are_refused() {
    for version in [0, 2, u32::MAX] {
        let mut json = small();
        json["version"] = version.into();
        assert_eq!(code(&json), "unsupported-version");
    }
}

#[test]
fn messages_that_leave_open_what_they_mean_are_refused() {
    assert!(Graph::try_from(parse(&small())).is_ok());
    for (field, value) in [
        ("params", json!({"p": {}})),
        ("params", json!({"p": {"null": false}})),
        ("params", json!({"p": {"list": {"values": [{}]}}})),
        ("determinism", json!({"deterministic": false})),
        ("determinism", json!({"random": false})),
        ("source", json!({})),
        ("source", json!({"arguments": false})),
    ] {
        assert_eq!(
            code(&with(field, value.clone())),
            "malformed-message",
            "{field} {value}"
        );
    }
    assert_eq!(code(&with("codeDigest", "AQ==".into())), "bad-digest");
    assert_eq!(
        code(&with("params", json!({"p": {"digest": "AQ=="}}))),
        "bad-digest"
    );
    assert_eq!(code(&with("params", json!({"p": {"digest": ""}}))), "bad-digest");
    assert_eq!(code(&with("after", json!(["a"]))), "cycle");
    assert_eq!(code(&with("after", json!(["b"]))), "unknown-operator");
}

#[test]
fn a_million_operators_are_refused() {
    let operator = v1::Operator {
        name: "x".into(),
        ..Default::default()
    };
    let wire = v1::Graph {
        version: 1,
        operators: vec![operator; 1_000_000],
        output: String::new(),
    };
    assert_eq!(
        Graph::try_from(wire).map_err(|e| e.code()).unwrap_err(),
        "too-many-operators"
    );
}

#[test]
fn depth_is_bounded_and_the_deepest_value_passes_every_decoder() {
    let nested = |depth| {
        let mut value = json!({"null": true});
        for i in 1..depth {
            value = if i % 2 == 0 {
                json!({"list": {"values": [value]}})
            } else {
                json!({"map": {"entries": {"k": value}}})
            };
        }
        with("params", json!({"p": value}))
    };
    let graph = Graph::try_from(parse(&nested(24))).unwrap();
    let bytes = v1::Graph::from(&graph).encode_to_vec();
    assert_eq!(
        Graph::try_from(v1::Graph::decode(&bytes[..]).unwrap())
            .unwrap()
            .digest(),
        graph.digest()
    );
    assert_eq!(code(&nested(25)), "value-too-deep");
    // Deeper than JSON or protobuf decoders go: made by hand.
    let mut value = v1::Value {
        kind: Some(v1::value::Kind::Null(true)),
    };
    for _ in 0..5000 {
        value = v1::Value {
            kind: Some(v1::value::Kind::List(v1::List { values: vec![value] })),
        };
    }
    let mut wire = parse(&small());
    wire.operators[0].params.insert("p".into(), value);
    assert_eq!(
        Graph::try_from(wire).map_err(|e| e.code()).unwrap_err(),
        "value-too-deep"
    );
}

#[test]
fn json_keeps_integers_and_reals_apart() {
    let typed = |value: Json| Graph::try_from(parse(&with("params", json!({"p": value})))).unwrap();
    let (integer, real) = (typed(json!({"integer": "224"})), typed(json!({"real": 224})));
    assert_eq!(integer.operators()[0].params["p"], Value::Int(224));
    assert_eq!(real.operators()[0].params["p"], Value::Real(224.0));
    assert_ne!(integer.digest(), real.digest());
}

#[test]
fn stats_go_both_ways() {
    let stat = FileStat {
        device: 1,
        inode: u64::MAX,
        size: 3,
        mtime_ns: -1,
        ctime_ns: i64::MAX,
    };
    assert_eq!(FileStat::from(v1::FileStat::from(stat)), stat);
}

#[test]
fn leaves_survive_and_what_is_too_much_of_them_is_dropped() {
    let leaf = |path: &str| json!({"path": path, "kind": "global", "digest": "AAAAAAAAAAAAAAAAAAAAAA==", "shown": "2"});
    let leaves = |leaves: Json| Graph::try_from(parse(&with("leaves", leaves))).unwrap();
    let graph = leaves(json!([leaf("SCALE")]));
    assert_eq!(graph.digest(), Graph::try_from(parse(&small())).unwrap().digest());
    let again = Graph::try_from(v1::Graph::from(&graph)).unwrap();
    assert_eq!(again.operators()[0].leaves, graph.operators()[0].leaves);
    assert_eq!(again.operators()[0].leaves[0].path, "SCALE");

    let count = |json: Json| leaves(json).operators()[0].leaves.len();
    let mut strange = leaf("x");
    strange["kind"] = "colour".into();
    assert_eq!(count(json!([strange, leaf("SCALE")])), 1);
    let mut short = leaf("x");
    short["digest"] = "AQ==".into();
    assert_eq!(count(json!([short, leaf(&"x".repeat(5000)), leaf("SCALE")])), 1);
    let many: Vec<_> = (0..5000).map(|i| leaf(&i.to_string())).collect();
    assert!(count(many.into()) <= 4096);
    let mut wire = parse(&with(
        "leaves",
        (0..9000)
            .map(|i| leaf(&format!("{i:0999}")))
            .collect::<Vec<_>>()
            .into(),
    ));
    assert!(wire.encoded_len() > 4 << 20);
    trim(&mut wire);
    assert!(wire.encoded_len() < 300 << 10 && wire.operators[0].leaves.len() > 200);
    let large: Vec<_> = (0..1000).map(|i| leaf(&format!("{i:01000}"))).collect();
    assert!((1..300).contains(&count(large.into())));
}
