//! Why something was computed or not cached, in words or JSON.

use crate::Outcome;
use crate::status::{control, human_bytes, human_seconds};
use prebake_proto::v1::{Cause, ExplainedStep, Explanation, Nearest};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Digits of a digest that people are shown.
const DIGEST_CHARS: usize = 8;

/// What is printed for a shown value that has none.
const UNKNOWN: &str = "?";

/// Prints why `target`, or what was last, missed or was refused.
pub fn explain(dir: Option<&Path>, target: Option<String>, json: bool) -> Outcome {
    let target = target.unwrap_or_default();
    let asked = target.clone();
    let answer = control(dir)?.explain(target).map_err(|e| e.to_string())?;
    let explained = answer.explanations.iter().any(|e| e.verdict != "reused");
    if json {
        say!("{}", serde_json::to_string(&answer).map_err(|e| e.to_string())?);
    } else if answer.explanations.is_empty() && asked.is_empty() {
        say!("nothing was missed or refused since the daemon started");
    } else if answer.explanations.is_empty() {
        say!("nothing is known of {asked}: see prebake status for what is");
    } else {
        let texts: Vec<String> = answer.explanations.iter().map(text).collect();
        crate::output::text(&texts.join("\n"));
    }
    Ok(ExitCode::from(u8::from(!explained)))
}

fn text(e: &Explanation) -> String {
    let mut out = String::new();
    let verdict = match &*e.verdict {
        "refused" => "NOT CACHED",
        "reused" => "REUSED",
        _ => "MISS",
    };
    let code = if e.code.is_empty() {
        String::new()
    } else {
        format!("code {} ", e.code)
    };
    let mut line = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<9}  {text}");
    };
    if !e.reason.is_empty() {
        let at = if e.reason.ends_with(&e.location) {
            ""
        } else {
            &*e.location
        };
        line("why", format!("{} {at}", e.reason).trim_end().to_owned());
    }
    line(
        "job",
        format!(
            "{} (pid {}), {} ago",
            shown(&e.job),
            e.pid,
            human_seconds(e.seconds_ago)
        ),
    );
    if let Some(near) = &e.nearest {
        line("nearest", nearest(near));
    }
    for step in &e.steps {
        line("", operator(step));
    }
    for cause in e.causes.iter().skip(1) {
        line("also", also(cause));
    }
    for (name, text) in costs(e) {
        line(name, text);
    }
    if e.verdict == "miss" {
        let plural = if e.other_differences == 1 { "" } else { "s" };
        line(
            "more",
            format!("{} other difference{plural}", e.other_differences),
        );
    }
    let what = if e.pipeline.is_empty() {
        &e.location
    } else {
        &e.pipeline
    };
    format!("{verdict}  {}  {code}{}\n{out}", shown(what), e.title)
}

/// What is still reused, and what is to be computed again.
fn costs(e: &Explanation) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(reuse) = &e.reuse {
        let share = match reuse.cost_share {
            share if share > 0.0 => format!(" ({:.0} % of the cost)", share * 100.0),
            _ => String::new(),
        };
        let (pipeline, digest, entries) = (&reuse.pipeline, short(&reuse.subgraph_digest), reuse.entries);
        lines.push((
            "reuse",
            format!("{pipeline} from {digest}, {entries} entries{share}"),
        ));
    }
    if e.elements_missing > 0 {
        let each = e.cpu_seconds_per_element * 1e3;
        let whole = human_seconds(e.cpu_seconds_to_recompute);
        let told = format!("{whole} of CPU: {} elements at {each:.2} ms", e.elements_missing);
        lines.push(("recompute", told));
    }
    lines
}

fn nearest(near: &Nearest) -> String {
    format!(
        "{} by {} (pid {}), {} ago, {} entries, {}, {}; {} of {} operators equal",
        short(&near.subgraph_digest),
        shown(&near.job),
        near.pid,
        human_seconds(near.seconds_ago),
        near.entries,
        human_bytes(near.bytes),
        near.state,
        near.operators_equal,
        near.operators
    )
}

/// `= decode`, or what it has otherwise.
fn operator(step: &ExplainedStep) -> String {
    let sign = match &*step.state {
        "equal" | "downstream" => "=",
        "added" => "+",
        "removed" => "-",
        _ => "\u{2260}",
    };
    match &*step.state {
        "equal" => format!("{sign} {} {}", step.operator, step.location)
            .trim_end()
            .to_owned(),
        "downstream" => format!(
            "{sign} {} (computed again: downstream of the change)",
            step.operator
        ),
        _ => format!("{sign} {}", step.differences.join("; ")),
    }
}

fn also(cause: &Cause) -> String {
    format!(
        "{} {}: {} elements, {}",
        cause.code, cause.title, cause.elements, cause.reason
    )
}

fn short(digest: &str) -> &str {
    digest.get(..DIGEST_CHARS).unwrap_or(digest)
}

fn shown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}
