//! The rules of the canonical form, one property each: what a rule leaves out cannot be told apart, and nothing else
//! is left out with it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{class, graph, input, op, source, with};
use prebake_fingerprint::{
    Determinism, Digest, Operator, Value,
    rules::{IDENTITIES, RULES, Rule, Scope},
};
use proptest::{collection, prelude::*, sample::Index};
use std::collections::BTreeMap;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Real),
        ".{0,6}".prop_map(Value::Text),
    ]
}

fn rule() -> impl Strategy<Value = &'static Rule> {
    any::<Index>().prop_map(|index| index.get(RULES))
}

/// A name that a rule covers.
fn covered(scope: Scope) -> impl Strategy<Value = String> {
    match scope {
        Scope::Own => "[a-z_]{3,9}".boxed(),
        Scope::Named(name) => Just(name.to_owned()).boxed(),
        Scope::Under(prefix) => "[a-z]{3,9}"
            .prop_map(move |rest| format!("{prefix}{rest}"))
            .boxed(),
    }
}

fn ruled() -> impl Strategy<Value = (&'static Rule, String)> {
    rule().prop_flat_map(|rule| (Just(rule), covered(rule.scope)))
}

fn digest(operators: Vec<Operator>, output: &str) -> Digest {
    graph(operators, output).digest()
}

/// A source, operators in a line after it, each with a parameter, and the last one's id.
fn line() -> impl Strategy<Value = (Vec<Operator>, String)> {
    collection::vec(("[a-z]{3,9}", value()), 1..6).prop_map(|drafts| {
        let mut operators = vec![source("0")];
        for (i, (name, value)) in drafts.into_iter().enumerate() {
            // A name that no rule and no identity has.
            let name = format!("step_{name}");
            let each = op(&(i + 1).to_string(), &name, &[&i.to_string()]);
            operators.push(with(each, "k", value));
        }
        let last = (operators.len() - 1).to_string();
        (operators, last)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_knob_of_execution_does_not_count_wherever_it_stands(
        (rule, name) in ruled(), (mut operators, last) in line(), at in any::<Index>(), a in value(), b in value(),
    ) {
        let at = 1 + at.index(operators.len() - 1);
        operators[at].name = name;
        let of = |value: Option<Value>| {
            let mut operators = operators.clone();
            if let Some(value) = value {
                operators[at].params.insert(rule.parameter.into(), value);
            }
            graph(operators, &last)
        };
        let without = of(None);
        for given in [a, b] {
            let given = of(Some(given));
            prop_assert_eq!(given.digest(), without.digest(), "{:?}", rule);
            prop_assert_eq!(given.canonical(), without.canonical());
        }
    }

    #[test]
    fn a_knob_counts_where_it_may_mean_something_else(
        (rule, name) in ruled(), (mut operators, last) in line(), a in any::<i64>(), b in any::<i64>(), how in 0..5,
    ) {
        prop_assume!(a != b);
        let end = operators.len() - 1;
        operators[end].name = name;
        match how {
            // Code of its own, and randomness of its own or upstream.
            0 => operators[end].code = Some(Digest([1; 32])),
            1 => operators[end].determinism = Determinism::Seeded(1),
            2 => operators[0].determinism = Determinism::Random,
            3 => operators[end].name = format!("other.package.{}", operators[end].name.replace(['.', ':', '/'], "_")),
            _ => {
                operators[end].inputs.clear();
                operators[end].source = source("x").source;
            }
        }
        let of = |value| {
            let mut operators = operators.clone();
            operators[end].params.insert(rule.parameter.into(), Value::Int(value));
            digest(operators, &last)
        };
        prop_assert_ne!(of(a), of(b), "{:?} {}", rule, how);
    }

    #[test]
    fn a_parameter_that_no_rule_names_counts(
        (mut operators, last) in line(), at in any::<Index>(), parameter in "[a-z_]{1,12}", a in any::<i64>(), b in any::<i64>(),
    ) {
        prop_assume!(a != b && RULES.iter().all(|rule| rule.parameter != parameter));
        let at = 1 + at.index(operators.len() - 1);
        let mut of = |value| {
            operators[at].params.insert(parameter.clone(), Value::Int(value));
            digest(operators.clone(), &last)
        };
        prop_assert_ne!(of(a), of(b));
    }

    #[test]
    fn no_rule_clears_a_seed(
        (mut operators, last) in line(), at in any::<Index>(), name in "[a-z_]{3,9}", a in any::<i64>(), b in any::<i64>(),
    ) {
        prop_assume!(a != b);
        let at = 1 + at.index(operators.len() - 1);
        operators[at].name = name;
        let of = |class: fn(i64) -> Determinism, seed| {
            let mut operators = operators.clone();
            operators[at].params.insert("seed".into(), Value::Int(seed));
            operators[at].determinism = class(seed);
            digest(operators, &last)
        };
        prop_assert_ne!(of(Determinism::Seeded, a), of(Determinism::Seeded, b));
        prop_assert_ne!(of(|_| Determinism::Deterministic, a), of(|_| Determinism::Deterministic, b));
    }

    #[test]
    fn the_order_of_parameters_does_not_count(
        params in collection::btree_map("[a-z]{1,3}", value(), 0..6), (operators, last) in line(),
    ) {
        let of = |params: Vec<(&String, &Value)>| {
            let mut operators = operators.clone();
            for (name, value) in params {
                operators[1].params.insert(name.clone(), value.clone());
            }
            // The same of a map within a parameter.
            let inner: BTreeMap<_, _> = operators[1].params.clone().into_iter().collect();
            operators[1].params.insert("inner".into(), Value::Map(inner));
            digest(operators, &last)
        };
        prop_assert_eq!(of(params.iter().collect()), of(params.iter().rev().collect()));
    }

    #[test]
    fn a_number_counts_by_its_type_and_value_not_by_how_it_is_written(number in any::<f64>(), whole in any::<i32>()) {
        let of = |value| digest(vec![source("s"), with(op("o", "resize", &["s"]), "k", value)], "o");
        let written = format!("{number:e}").parse().unwrap();
        prop_assert_eq!(of(Value::Real(number)), of(Value::Real(written)));
        prop_assert_eq!(of(Value::Real(f64::NAN)), of(Value::Real(f64::NAN)));
        prop_assert_ne!(of(Value::Int(whole.into())), of(Value::Real(whole.into())));
        prop_assert_ne!(of(Value::Real(0.0)), of(Value::Real(-0.0)));
        prop_assert_ne!(of(Value::Int((whole & 1).into())), of(Value::Bool(whole & 1 == 1)));
        prop_assert_ne!(of(Value::Int(whole.into())), of(Value::Text(whole.to_string())));
    }

    #[test]
    fn an_identity_operator_does_not_count_on_any_edge(
        identity in any::<Index>(), (operators, last) in line(), at in any::<Index>(), ahead in any::<i64>(),
    ) {
        let identity = identity.get(IDENTITIES);
        let at = 1 + at.index(operators.len() - 1);
        let from = operators[at].inputs[0].operator.clone();
        let mut other = operators.clone();
        let mut put = op("put", identity.name, &[&from]);
        if identity.name != "identity" {
            put = with(put, "buffer_size", Value::Int(ahead));
        }
        other[at].inputs[0] = input("put", 0);
        other.insert(at, put.clone());
        let (plain, with_it) = (graph(operators, &last), graph(other.clone(), &last));
        prop_assert_eq!(plain.digest(), with_it.digest());
        prop_assert_eq!(plain.canonical(), with_it.canonical());
        // With code, randomness, an unknown parameter or another output taken, it is an operator as any other.
        let random = class(put.clone(), Determinism::Random);
        let (mut coded, mut port) = (put.clone(), put.clone());
        coded.code = Some(Digest([1; 32]));
        port.inputs[0].port = 1;
        for odd in [random, coded, port, with(put, "unheard_of", Value::Int(1))] {
            let mut other = other.clone();
            other[at] = odd;
            prop_assert_ne!(digest(other, &last), plain.digest());
        }
    }

    #[test]
    fn equal_nodes_are_one((operators, last) in line(), at in any::<Index>()) {
        // A second line of equal operators up to some place; both feed the end.
        let upto = at.index(operators.len());
        let twin = |id: &str| format!("twin {id}");
        let mut doubled = operators.clone();
        for each in &operators[..=upto] {
            let mut each = each.clone();
            each.id = twin(&each.id);
            each.inputs.iter_mut().for_each(|i| i.operator = twin(&i.operator));
            doubled.push(each);
        }
        let shared = operators[upto].id.clone();
        let both = |second: &str| op("end", "zip", &[&last, second]);
        let mut once = operators.clone();
        once.push(both(&shared));
        doubled.push(both(&twin(&shared)));
        let (once, doubled) = (graph(once, "end"), graph(doubled, "end"));
        prop_assert_eq!(once.digest(), doubled.digest());
        prop_assert_eq!(once.canonical(), doubled.canonical());
    }

    #[test]
    fn pipelines_share_all_that_is_before_their_first_difference(
        (operators, last) in line(), at in any::<Index>(), other in value(),
    ) {
        let at = 1 + at.index(operators.len() - 1);
        let mut changed = operators.clone();
        prop_assume!(changed[at].params["k"] != other);
        changed[at].params.insert("k".into(), Value::List(vec![other]));
        let (a, b) = (graph(operators.clone(), &last), graph(changed, &last));
        for (i, each) in operators.iter().enumerate() {
            prop_assert_eq!(a.digest_of(&each.id) == b.digest_of(&each.id), i < at);
        }
    }
}
