//! Properties of digests over generated graphs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{graph, input};
use prebake_fingerprint::{Determinism, Digest, Graph, Kind, Operator, Source, Value, diff, rules::RULES};
use proptest::{collection, prelude::*, sample::Index};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(|bits| Value::Real(f64::from_bits(bits))),
        ".{0,6}".prop_map(Value::Text),
        collection::vec(any::<u8>(), 0..6).prop_map(Value::Bytes),
        any::<[u8; 32]>().prop_map(|bytes| Value::Digest(Digest(bytes))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            collection::btree_map(".{0,3}", inner, 0..4).prop_map(Value::Map),
        ]
    })
}

fn determinism() -> impl Strategy<Value = Determinism> {
    prop_oneof![
        6 => Just(Determinism::Deterministic),
        1 => any::<i64>().prop_map(Determinism::Seeded),
        1 => Just(Determinism::Random),
        1 => "[a-z]{0,4}".prop_map(Determinism::Unknown),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        any::<bool>().prop_map(|path_ignored| Source::Files { path_ignored }),
        Just(Source::Arguments),
        collection::vec(any::<u8>(), 0..6).prop_map(Source::Literal),
        ".{0,6}".prop_map(Source::Snapshot),
    ]
}

fn operator() -> impl Strategy<Value = (Operator, Vec<(Index, u32)>, Vec<Index>)> {
    let name = prop_oneof![
        Just("decode"),
        Just("resize"),
        Just("pkg.mod.Crop"),
        Just("identity"),
        Just("prefetch")
    ];
    let params = collection::btree_map("[a-c]|num_workers|buffer_size", value(), 0..3);
    let own = (
        name,
        "[0-9]{0,2}",
        params,
        proptest::option::weighted(0.2, any::<[u8; 32]>()),
        determinism(),
    );
    let edges = (
        collection::vec((any::<Index>(), prop_oneof![4 => Just(0), 1 => 0..3_u32]), 0..3),
        collection::vec(any::<Index>(), 0..4),
    );
    (own, edges, source()).prop_map(
        |((name, version, params, code, determinism), (inputs, after), source)| {
            let mut operator = Operator::new("", name);
            operator.version = version;
            operator.params = params;
            operator.code = code.map(Digest);
            operator.determinism = determinism;
            operator.source = inputs.is_empty().then_some(source);
            (operator, inputs, after)
        },
    )
}

/// Operators with ids `0..n`, each fed by earlier ones.
fn operators() -> impl Strategy<Value = Vec<Operator>> {
    collection::vec(operator(), 1..9).prop_map(|drafts| {
        let mut operators = Vec::new();
        for (i, (mut operator, inputs, after)) in drafts.into_iter().enumerate() {
            operator.id = i.to_string();
            if i > 0 {
                let id = |index: &Index| index.index(i).to_string();
                operator.inputs = inputs
                    .iter()
                    .map(|(index, port)| input(&id(index), *port))
                    .collect();
                operator.after = after.iter().map(id).collect();
            }
            operators.push(operator);
        }
        operators
    })
}

fn last(operators: &[Operator]) -> String {
    operators.last().unwrap().id.clone()
}

/// Changes one thing of one operator; `None` if it has no such thing.
fn changed(operator: &Operator, what: usize) -> Option<Operator> {
    let mut o = operator.clone();
    match what {
        0 => o.name.push('x'),
        1 => o.version.push('x'),
        2 => o.code = Some(Digest(o.code.map_or([1; 32], |c| c.0.map(|b| !b)))),
        3 => drop(o.params.insert("new".into(), Value::Null)),
        4 => {
            let (_, value) = o
                .params
                .iter_mut()
                .find(|(name, _)| RULES.iter().all(|r| r.parameter != **name))?;
            *value = Value::List(vec![value.clone()]);
        }
        5 => {
            o.determinism = match o.determinism {
                Determinism::Seeded(seed) => Determinism::Seeded(!seed),
                Determinism::Deterministic => Determinism::Random,
                _ => Determinism::Deterministic,
            }
        }
        6 => o.inputs.last_mut()?.port += 3,
        7 => o.inputs.push(o.inputs.first()?.clone()),
        8 => {
            o.source = Some(match o.source? {
                Source::Files { path_ignored } => Source::Files {
                    path_ignored: !path_ignored,
                },
                Source::Literal(bytes) => Source::Snapshot(format!("{bytes:?}")),
                _ => Source::Literal(vec![1]),
            });
        }
        // All: of two equal ones, one more or less means nothing.
        _ => {
            o.after.first()?;
            o.after.clear();
        }
    }
    Some(o)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_ids_and_locations_do_not_count(
        (operators, shuffled) in operators().prop_flat_map(|o| (Just(o.clone()), Just(o).prop_shuffle())),
    ) {
        let plain = graph(operators.clone(), &last(&operators));
        let renamed = shuffled.into_iter().map(|mut o| {
            o.id = format!("renamed {}", o.id);
            o.location = "elsewhere.py:1".into();
            o.inputs.iter_mut().for_each(|i| i.operator = format!("renamed {}", i.operator));
            o.after = o.after.iter().rev().map(|id| format!("renamed {id}")).collect();
            o
        });
        let other = graph(renamed.collect(), &format!("renamed {}", last(&operators)));
        prop_assert_eq!(plain.digest(), other.digest());
        prop_assert_eq!(plain.shape(), other.shape());
        prop_assert_eq!(plain.canonical(), other.canonical());
        prop_assert!(diff(&plain, &other).is_empty());
    }

    #[test]
    fn a_canonical_form_is_a_graph_and_its_own_canonical_form(operators in operators()) {
        let plain = graph(operators.clone(), &last(&operators));
        let again = Graph::from_canonical(plain.canonical()).unwrap();
        prop_assert_eq!(plain.digest(), again.digest());
        prop_assert_eq!(plain.shape(), again.shape());
        prop_assert_eq!(plain.determinism().class(), again.determinism().class());
        prop_assert_eq!(plain.pipeline(), again.pipeline());
        prop_assert!(diff(&plain, &again).is_empty());
    }

    #[test]
    fn any_change_counts(operators in operators(), what in 0..10_usize) {
        // The last operator is always needed. The identity operators' own test is elsewhere.
        let mut other = operators.clone();
        let end = other.last_mut().unwrap();
        let Some(change) = changed(end, what) else { return Ok(()) };
        prop_assume!(!["identity", "prefetch"].contains(&&*end.name));
        *end = change;
        let (a, b) = (graph(operators.clone(), &last(&operators)), graph(other, &last(&operators)));
        prop_assert_ne!(a.digest(), b.digest());
        prop_assert_ne!(a.canonical(), b.canonical());
    }

    #[test]
    fn differences_digests_and_canonical_forms_agree(
        operators in operators(),
        edits in collection::vec((any::<Index>(), 0..10_usize), 0..4),
        output in any::<Index>(),
    ) {
        let mut other = operators.clone();
        for (index, what) in edits {
            let i = index.index(other.len());
            if let Some(change) = changed(&other[i], what) {
                other[i] = change;
            }
        }
        let a = graph(operators.clone(), &last(&operators));
        for b in [graph(other.clone(), &last(&operators)), graph(other, &output.index(operators.len()).to_string())] {
            let same = a.digest() == b.digest();
            prop_assert_eq!(a.canonical() == b.canonical(), same);
            prop_assert_eq!(diff(&a, &b).is_empty(), same);
            prop_assert_eq!(diff(&b, &a).is_empty(), same);
            for difference in diff(&a, &b) {
                let whole = matches!(difference.kind, Kind::Added | Kind::Removed);
                prop_assert!(whole || difference.before != difference.after, "{difference}");
            }
        }
    }
}
