//! The edges of a graph, by position instead of id.

use crate::{Error, Operator};
use std::collections::HashMap;

/// For each operator, what feeds it and what runs before it.
#[derive(Debug)]
pub struct Edges {
    /// Operators that feed it, and their output ports, in order.
    pub inputs: Vec<Vec<(usize, u32)>>,
    /// Operators that only run before it.
    pub after: Vec<Vec<usize>>,
}

impl Edges {
    /// Looks up every id.
    ///
    /// # Errors
    /// [`Error::UnknownOperator`] and [`Error::SourceWithInputs`].
    pub fn resolve(operators: &[Operator], positions: &HashMap<String, usize>) -> Result<Self, Error> {
        let mut edges = Self {
            inputs: Vec::new(),
            after: Vec::new(),
        };
        for operator in operators {
            if operator.source.is_some() && !operator.inputs.is_empty() {
                return Err(Error::SourceWithInputs {
                    id: operator.id.clone(),
                });
            }
            let find = |id: &String| {
                positions.get(id).copied().ok_or_else(|| Error::UnknownOperator {
                    operator: operator.id.clone(),
                    missing: id.clone(),
                })
            };
            let inputs = operator
                .inputs
                .iter()
                .map(|input| Ok((find(&input.operator)?, input.port)));
            edges.inputs.push(inputs.collect::<Result<_, Error>>()?);
            edges
                .after
                .push(operator.after.iter().map(find).collect::<Result<_, _>>()?);
        }
        Ok(edges)
    }

    /// All operators right upstream of `i`: those that feed it first.
    pub fn upstream(&self, i: usize) -> impl Iterator<Item = usize> {
        self.inputs[i]
            .iter()
            .map(|(upstream, _)| *upstream)
            .chain(self.after[i].iter().copied())
    }
}
