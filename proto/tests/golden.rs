//! Digests that must never change: stored entries are found by them. A change here needs a new version in
//! `prebake_fingerprint::digest::Context`.

use prebake_fingerprint::{Graph, digest::Context, input};
use prebake_proto::v1;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    title: String,
    graph: v1::Graph,
    digest: String,
    shape: String,
    /// Content digest of the canonical form.
    canonical: String,
}

#[test]
fn digests_of_graphs_never_change() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(cases.len() >= 4);
    let mut wrong = Vec::new();
    for case in cases {
        let graph = Graph::try_from(case.graph).unwrap();
        let found = [
            graph.digest(),
            graph.shape(),
            Context::Content.digest(graph.canonical()),
        ]
        .map(|d| d.to_string());
        if found != [case.digest, case.shape, case.canonical] {
            wrong.push(format!("{}: {found:?}", case.title));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn digests_of_inputs_never_change() {
    let content = input::content(&b"bytes"[..]).unwrap();
    let item = input::item(Some(b"a/1.jpg"), &content);
    let found = [
        content,
        item,
        input::item(None, &content),
        input::directory([("b", content), ("a", item)]),
        input::partition([item, content]),
        input::arguments(&item, &content),
    ];
    let golden: Vec<String> = serde_json::from_str(include_str!("golden_inputs.json")).unwrap();
    assert_eq!(found.map(|digest| digest.to_string()).to_vec(), golden);
}
