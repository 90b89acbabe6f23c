//! The lists of what a command reads, which its next run looks at.

use crate::parts::Parts;
use prebake_client::trace::{
    Report,
    reads::{self, Reads},
};

/// Layout of a list.
const LAYOUT: &str = r#"{"kind":"reads"}"#;

/// A list, and what a tracer told.
pub fn run(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let list = parts.next().unwrap_or_default();
    if let Some(list) = Reads::decode(LAYOUT, list) {
        let again = list
            .encode()
            .ok()
            .and_then(|(layout, bytes)| Reads::decode(layout, &bytes));
        assert!(
            again.is_some_and(|again| again == list),
            "a list is another when it is read again"
        );
    }
    if let Ok(report) = serde_json::from_slice::<Report>(parts.0) {
        let _ = (reads::check(&report), Reads::default().more(&report));
    }
}
