//! What a person asks to have explained.

use super::Subject;
use prebake_fingerprint::Graph;

/// Digits of a digest that are taken for one: fewer are in half of all digests.
const PREFIX_MIN: usize = 4;

/// Names of things to explain.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// The last miss or refusal.
    Last,
    /// A line of the user's code: file name and number.
    Line(String, u64),
    /// A job's name, pid or session, or the first digits of a digest.
    Named(String),
}

impl Target {
    /// Whatever text is one: a place of code if it looks like one.
    pub fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::Last;
        }
        // Locations have no folders: a script that moved is the same script.
        place(text).map_or_else(
            || Self::Named(text.to_owned()),
            |(file, line)| Self::Line(file, line),
        )
    }

    /// Those of the subjects that the target means; at most one for [`Target::Last`].
    pub fn choose(&self, subjects: Vec<Subject>) -> Vec<Subject> {
        match self {
            Self::Last => subjects
                .into_iter()
                .filter(|s| !matches!(s, Subject::Reused(_)))
                .take(1)
                .collect(),
            Self::Named(name) => subjects.into_iter().filter(|s| s.is_called(name)).collect(),
            Self::Line(file, line) => {
                let above = |s: &Subject| s.line_at_or_above(file, *line);
                // The line itself, or else the function it lies in.
                let Some(nearest) = subjects.iter().filter_map(above).max() else {
                    return Vec::new();
                };
                subjects
                    .into_iter()
                    .filter(|s| above(s) == Some(nearest))
                    .collect()
            }
        }
    }
}

impl Subject {
    fn is_called(&self, name: &str) -> bool {
        let is_job = |job: &str, pid: u32, session: Option<u64>| {
            job == name
                || name.parse() == Ok(pid)
                || session.is_some_and(|session| name.parse() == Ok(session))
        };
        let is_digest =
            |graph: &Graph| name.len() >= PREFIX_MIN && graph.digest().to_string().starts_with(name);
        match self {
            Self::Miss(miss, c) => is_job(&miss.job, miss.pid, Some(miss.session.0)) || is_digest(&c.graph),
            Self::Refusal(refusal) => is_job(&refusal.job, refusal.pid, Some(refusal.session)),
            Self::Quarantined(found) => {
                let is_prefix = name.len() >= PREFIX_MIN && found.digest.starts_with(name);
                is_prefix || is_job(&found.job, found.pid, None)
            }
            Self::Reused(c) => is_digest(&c.graph) || is_job(&c.origin.job, c.origin.pid, None),
        }
    }

    fn line_at_or_above(&self, file: &str, line: u64) -> Option<u64> {
        let matching = |location: &str| {
            let (of, at) = place(location)?;
            (of == file && at <= line).then_some(at)
        };
        match self {
            Self::Refusal(refusal) => matching(&refusal.location),
            Self::Quarantined(found) => matching(&found.location),
            Self::Miss(_, c) | Self::Reused(c) => {
                let leaves = c.graph.operators().iter().flat_map(|o| &o.leaves);
                let leaves = leaves.filter_map(|leaf| matching(&leaf.location));
                let operators = c.graph.operators().iter().filter_map(|o| matching(&o.location));
                operators.chain(leaves).max()
            }
        }
    }
}

/// File name and line of `folder/train.py:41`.
fn place(text: &str) -> Option<(String, u64)> {
    let (file, line) = text.rsplit_once(':')?;
    let file = file.rsplit('/').next().unwrap_or(file);
    (!file.is_empty()).then_some((file.to_owned(), line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_a_person_means_it() {
        assert_eq!(Target::parse(""), Target::Last);
        assert_eq!(
            Target::parse("a/b/train.py:41"),
            Target::Line("train.py".into(), 41)
        );
        for name in ["train.py", "4f2c", "train.py:", ":41", "train.py:x"] {
            assert_eq!(Target::parse(name), Target::Named(name.into()));
        }
    }
}
