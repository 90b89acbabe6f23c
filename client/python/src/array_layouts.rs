//! What arrays elements are, by the numbers of their layouts.

use crate::raw::arrays::Form;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// Those that were asked for, each once: to read a layout, which is JSON, takes longer than to make a small array.
#[derive(Default)]
pub(crate) struct ArrayLayouts(Mutex<Vec<Asked>>);

#[derive(Clone, Default)]
enum Asked {
    #[default]
    Not,
    /// It is no lone C-ordered array.
    Other,
    Array(Arc<Form>),
}

impl ArrayLayouts {
    /// The forms of these layouts; None if one is not that of an array. Of those that are not known `ask` tells type and shape,
    /// or None.
    pub(crate) fn of<'py>(
        &self,
        layouts: &[usize],
        ask: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Vec<Arc<Form>>>> {
        let mut forms = Vec::with_capacity(layouts.len());
        for number in layouts {
            let form = match self.known(*number) {
                // The lock is not held while Python runs.
                Asked::Not => self.keep(*number, Form::new(&ask(*number)?)?),
                known => known,
            };
            match form {
                Asked::Array(form) => forms.push(form),
                _ => return Ok(None),
            }
        }
        Ok(Some(forms))
    }

    fn known(&self, number: usize) -> Asked {
        let all = self.0.lock();
        all.get(number).cloned().unwrap_or_default()
    }

    fn keep(&self, number: usize, form: Option<Form>) -> Asked {
        let asked = form.map_or(Asked::Other, |form| Asked::Array(Arc::new(form)));
        let mut all = self.0.lock();
        if all.len() <= number {
            all.resize(number + 1, Asked::Not);
        }
        all[number] = asked.clone();
        asked
    }
}
