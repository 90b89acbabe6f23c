//! What a traced command reads beyond what is declared: a list that is kept, and what is there now under its names.
//!
//! Entries form a chain (ccache's manifests). The first is found by what is declared alone and holds a list of names. The
//! declared and what is under these names find the next, which is the result, or one more list if a run then read more.

use crate::trace::{ABSENT, Name, Report, Stamp, names, state};
use prebake_fingerprint::{Digest, digest::Context, input};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf, absolute},
};

/// Layout of an element that is a list.
const LAYOUT: &str = r#"{"kind":"reads"}"#;

/// Names, each in one of three ways of looking at it.
#[derive(Serialize, Deserialize, Default, Clone, PartialEq, Eq)]
pub struct Reads {
    /// By content.
    contents: BTreeSet<Name>,
    /// By what a look at it shows, absent ones too.
    looks: BTreeSet<Name>,
    /// By the names in a folder.
    lists: BTreeSet<Name>,
}

/// What is under the names.
pub struct Now {
    /// Digest of everything but the files' content.
    pub digest: Digest,
    /// Files whose content counts.
    pub files: Vec<PathBuf>,
}

impl Reads {
    /// What a run read that is not on this list.
    pub fn more(&self, report: &Report) -> Self {
        let looks = report
            .absent
            .iter()
            .chain(report.seen.iter().map(|(name, _)| name));
        Self {
            contents: new(report.reads.iter(), &self.contents),
            looks: new(looks, &self.looks),
            lists: new(report.listed.iter(), &self.lists),
        }
    }

    /// Both lists.
    pub fn and(&self, more: &Self) -> Self {
        Self {
            contents: &self.contents | &more.contents,
            looks: &self.looks | &more.looks,
            lists: &self.lists | &more.lists,
        }
    }

    /// Whether there is nothing on it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The list as an element: layout and bytes.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub fn encode(&self) -> Result<(&'static str, Vec<u8>), String> {
        let text = serde_json::to_vec(self).map_err(|e| e.to_string())?;
        Ok((LAYOUT, text))
    }

    /// Reads an element; None if it is no list.
    pub fn decode(layout: &str, bytes: &[u8]) -> Option<Self> {
        (layout == LAYOUT).then(|| serde_json::from_slice(bytes).ok())?
    }

    /// Looks at all of it. What `report` says was found by a run goes before what is there now: the run may have changed it.
    pub fn now(&self, outputs: &[PathBuf], report: &Report) -> Now {
        let resolved: Vec<PathBuf> = outputs.iter().filter_map(|o| absolute(o).ok()).collect();
        let outputs = [outputs.to_vec(), resolved.iter().map(|o| real(o)).collect()].concat();
        let seen: BTreeMap<_, _> = report
            .seen
            .iter()
            .map(|(name, state)| (name, state.as_str()))
            .collect();
        let absent: BTreeSet<_> = report.absent.iter().collect();
        let listed: BTreeMap<_, _> = report.listed.iter().zip(&report.names).collect();
        let mut files = Vec::new();
        let mut hasher = Context::Value.hasher();
        let mut tell = |kind: &str, name: &Path, what: &str| {
            for text in [kind.as_bytes(), name.as_os_str().as_bytes(), what.as_bytes()] {
                hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
            }
        };
        for name in &self.contents {
            let path = name.path();
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    tell("file", &path, "");
                    files.push(path);
                }
                _ => tell("no file", &path, &state(&path)),
            }
        }
        for name in &self.looks {
            let path = name.path();
            let found = match (seen.get(name), absent.contains(name)) {
                (Some(state), _) => (*state).to_owned(),
                (_, true) => ABSENT.to_owned(),
                _ => state(&path),
            };
            tell("look", &path, &found);
        }
        for name in &self.lists {
            let path = name.path();
            let found = match listed.get(name) {
                Some(digest) => digest.to_string(),
                None => names(&path, &outputs, &|_, _| false)
                    .map_or_else(|_| state(&path), |digest| digest.to_string()),
            };
            tell("list", &path, &found);
        }
        Now {
            digest: hasher.finalize().into(),
            files,
        }
    }
}

fn new<'a>(names: impl Iterator<Item = &'a Name>, known: &BTreeSet<Name>) -> BTreeSet<Name> {
    names.filter(|name| !known.contains(name)).cloned().collect()
}

/// Without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let there = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let whole = there.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    // An empty rest would add a slash.
    whole.map_or_else(|| path.to_path_buf(), |whole| whole.components().collect())
}

/// Why a run cannot be kept, by what it did: a code and what to do.
///
/// # Errors
/// That.
pub fn check(report: &Report) -> Result<(), String> {
    let first = |names: &[Name]| names.first().map(|name| name.path().display().to_string());
    if let Some(to) = report.network.first() {
        return Err(format!(
            "R22 it uses the network ({to}), and nothing tells what it gets from there"
        ));
    }
    if let Some(path) = first(&report.writes) {
        return Err(format!(
            "R32 it changes {path}, which is neither an output (-o) nor temporary"
        ));
    }
    if let Some(path) = first(&report.leftovers) {
        return Err(format!(
            "R25 it looks at {path}, which was in the output before: remove it so that the result can be kept"
        ));
    }
    if !report.complete {
        let why = &report.why;
        return Err(format!(
            "R23 {why}: with --declared-only what is declared is believed"
        ));
    }
    if let Some(name) = &report.changed {
        let path = name.path();
        return Err(format!("R23 {} changed while it ran", path.display()));
    }
    Ok(())
}

/// Whether the files are as they were when the command opened them. To be asked once they are fingerprinted: what was
/// read is then what counts.
///
/// # Errors
/// Which is not.
pub fn check_stamps(report: &Report) -> Result<(), String> {
    for (name, stamp) in report.reads.iter().zip(&report.stamps) {
        let path = name.path();
        if !is_same(&path, stamp).unwrap_or(false) {
            return Err(format!("R23 {} changed while it ran", path.display()));
        }
    }
    Ok(())
}

fn is_same(path: &Path, then: &Stamp) -> io::Result<bool> {
    let now = fs::metadata(path)?;
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    let stat = (
        now.dev(),
        now.ino(),
        now.size(),
        nanoseconds(now.mtime(), now.mtime_nsec()),
        nanoseconds(now.ctime(), now.ctime_nsec()),
    );
    let content = || {
        then.content
            .map(|then| Ok(input::content(File::open(path)?)? == then))
    };
    Ok(stat == then.stat && content().unwrap_or(Ok::<_, io::Error>(true))?)
}
