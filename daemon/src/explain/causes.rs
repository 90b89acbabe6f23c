//! One reason of a miss: its code and what a person reads.

use crate::{
    cache::Cache,
    codes,
    collection::Reason,
    explain::status::seconds_since,
    history::misses::Cause,
    tier::ssd::{Gone, Why},
};
use prebake_fingerprint::Difference;
use prebake_proto::v1;

/// A reason as it is told, and where the user wrote what made it. `first` is the first difference from the nearest
/// collection, if there is one.
pub fn told(cache: &Cache, reason: Reason, cause: &Cause, first: Option<&Difference>) -> (v1::Cause, String) {
    let (code, words, location) = match reason {
        Reason::NewGraph => match first {
            Some(first) => (first.kind.code(), first.to_string(), first.location.clone()),
            None => (
                "M10",
                "no collection shares an operator with it".to_owned(),
                String::new(),
            ),
        },
        Reason::InputChanged => ("M15", items("changed", cause), String::new()),
        Reason::NewInput => ("M15", items("never computed before", cause), String::new()),
        Reason::Evicted => ("M17", evicted(cache, cause.gone), String::new()),
        Reason::FillFailed => (codes::FILL_FAILED, cause.told.clone(), cause.at.clone()),
        Reason::Corrupt => ("M19", corrupt(cache, cause.gone), String::new()),
    };
    let cause = v1::Cause {
        code: code.into(),
        title: codes::title(code).into(),
        elements: cause.elements,
        reason: words,
        items: cause.items.clone(),
    };
    (cause, location)
}

/// `a.jpg, b.jpg and 3 more changed`.
fn items(what: &str, cause: &Cause) -> String {
    let more = cause.elements.saturating_sub(cause.items.len() as u64);
    let named = cause.items.join(", ");
    if more == 0 {
        format!("{named} {what}")
    } else {
        format!("{named} and {more} more {what}")
    }
}

fn evicted(cache: &Cache, gone: Option<Gone>) -> String {
    let Some(gone) = gone else {
        return "dropped from the disk some time ago".to_owned();
    };
    let by = match gone.why {
        Why::Displaced(collection) => match cache.catalog.find(collection) {
            Some(by) => format!("to make room for {}", by.graph.pipeline()),
            None => "to make room for what is dearer to compute".to_owned(),
        },
        Why::Asked => "by prebake gc".to_owned(),
        Why::Budget => "to stay within the disk budget".to_owned(),
        Why::Unwritten => "because it could not be written to the disk".to_owned(),
        Why::Corrupt => "because it did not match its digest".to_owned(),
        Why::Quarantined => "because it did not reproduce".to_owned(),
    };
    format!("dropped {:.0} s ago {by}", seconds_since(cache, gone.at_ns))
}

fn corrupt(cache: &Cache, gone: Option<Gone>) -> String {
    let when = gone.map_or_else(String::new, |gone| {
        format!(" {:.0} s ago", seconds_since(cache, gone.at_ns))
    });
    format!("a segment did not match its digest and was dropped{when}: check the disk")
}
