//! Graphs for tests.
#![allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    reason = "helpers; each test file uses some"
)]

use prebake_fingerprint::{Determinism, Error, Graph, Input, Operator, Source, Value};

pub fn op(id: &str, name: &str, inputs: &[&str]) -> Operator {
    let mut operator = Operator::new(id, name);
    operator.inputs = inputs.iter().map(|i| input(i, 0)).collect();
    operator
}

pub fn input(operator: &str, port: u32) -> Input {
    Input {
        operator: operator.into(),
        port,
    }
}

pub fn with(mut operator: Operator, name: &str, value: Value) -> Operator {
    operator.params.insert(name.into(), value);
    operator
}

pub fn at(mut operator: Operator, location: &str) -> Operator {
    operator.location = location.into();
    operator
}

pub fn class(mut operator: Operator, determinism: Determinism) -> Operator {
    operator.determinism = determinism;
    operator
}

pub fn ints(values: &[i64]) -> Value {
    Value::List(values.iter().map(|v| Value::Int(*v)).collect())
}

pub fn source(id: &str) -> Operator {
    let mut operator = Operator::new(id, "files");
    operator.source = Some(Source::Files { path_ignored: false });
    operator
}

pub fn eval() -> Vec<Operator> {
    let mut decode = op("decode", "PIL.Image.open", &["src"]);
    decode.version = "11.0".into();
    vec![
        source("src"),
        decode,
        at(
            with(
                op("resize", "torchvision.transforms.v2.Resize", &["decode"]),
                "size",
                ints(&[256]),
            ),
            "train.py:41",
        ),
        at(
            with(
                op("crop", "torchvision.transforms.v2.CenterCrop", &["resize"]),
                "size",
                Value::Int(224),
            ),
            "train.py:42",
        ),
    ]
}

pub fn graph(operators: Vec<Operator>, output: &str) -> Graph {
    Graph::new(operators, output).unwrap()
}

pub fn refused(operators: Vec<Operator>, output: &str) -> &'static str {
    Graph::new(operators, output)
        .map_err(|e: Error| e.code())
        .unwrap_err()
}
