//! What a command left behind, as one element: a list of parts (JSON, the element's layout) and their
//! bytes side by side.

mod before;
mod beneath;
mod part;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use before::Before;
pub use part::Part;

use crate::{Clock, SystemClock};
use before::walk;
use part::part;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, fs, io, path::PathBuf};

/// The list of parts with the length of each.
#[derive(Serialize, Deserialize)]
pub struct Layout {
    kind: String,
    parts: Vec<(Part, u64)>,
    made: u64,
}

/// Parts and their bytes.
#[derive(Default)]
pub struct Archive {
    /// When the command ended, in seconds since 1970.
    pub made: u64,
    /// In the order they are written back.
    pub parts: Vec<(Part, Vec<u8>)>,
}

/// Seconds since 1970.
pub fn now_seconds() -> u64 {
    u64::try_from(SystemClock::default().wall_ns()).unwrap_or(0) / 1_000_000_000
}

impl Archive {
    /// Reads back what the command left in its outputs.
    ///
    /// # Errors
    /// Why it cannot be cached: a file that was there before may be none of the command's, or hold what an
    /// earlier run wrote and this one added to; a replay must leave what a run from nothing would.
    pub fn collect(&mut self, outputs: &[PathBuf], before: &Before) -> Result<(), String> {
        for (output, root) in outputs.iter().enumerate() {
            walk(root, &mut |path, meta| {
                let below = path.strip_prefix(root).unwrap_or(path);
                let name = below
                    .to_str()
                    .ok_or_else(|| format!("{} is not UTF-8", path.display()))?
                    .to_owned();
                if before.holds(meta) {
                    return Err(format!(
                        "{} was there before and may hold what this run did not write: \
                         remove it so that the result can be kept",
                        path.display()
                    ));
                }
                self.parts.push(part(output, name, path, meta)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether writing this back leaves what a run would: there is nothing else in the outputs.
    pub fn covers(&self, outputs: &[PathBuf]) -> bool {
        let known = self
            .parts
            .iter()
            .filter_map(|(part, _)| Some((part.path(outputs)?, part)));
        let known: HashMap<_, _> = known.collect();
        outputs.iter().all(|root| {
            walk(root, &mut |path, meta| {
                let is_known = known.get(path).is_some_and(|part| part.is_of_kind(meta));
                let expected = meta.is_dir() && path == root || is_known;
                if expected { Ok(()) } else { Err(String::new()) }
            })
            .is_ok()
        })
    }

    /// Writes the outputs back. If that fails, what was not there before is removed again: a run must not find the half of
    /// what it makes. Nothing outside of them is written to, whatever the parts say and whatever links lie in the outputs.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn restore(&self, outputs: &[PathBuf]) -> Result<(), String> {
        let is_new = |part: &&Part| {
            let path = part.path(outputs);
            path.is_some_and(|path| fs::symlink_metadata(path).is_err())
        };
        let new: Vec<_> = self.parts.iter().map(|(part, _)| part).filter(is_new).collect();
        self.write(outputs).inspect_err(|_| {
            for part in new.iter().rev() {
                let Some(Ok(place)) = part.find(outputs) else {
                    continue;
                };
                // Those that were not written are not there.
                let _ = match part {
                    Part::Folder { .. } => place.remove_folder(),
                    _ => place.remove(),
                };
            }
        })
    }

    fn write(&self, outputs: &[PathBuf]) -> Result<(), String> {
        for (part, bytes) in &self.parts {
            if let Some(path) = part.path(outputs) {
                part.write(outputs, bytes)
                    .map_err(|e| format!("writing {}: {e}", path.display()))?;
            }
        }
        // Folders last and inside out: one that may not be written to is filled by now.
        for (part, _) in self.parts.iter().rev() {
            if let (Part::Folder { mode, .. }, Some(path)) = (part, part.path(outputs)) {
                let place = part
                    .place(outputs)
                    .unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()));
                place
                    .and_then(|place| place.set_mode(*mode))
                    .map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Removes what the outputs hold of it, so that a run makes it anew.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn remove(&self, outputs: &[PathBuf]) -> Result<(), String> {
        let is_folder = |part: &Part| matches!(part, Part::Folder { .. });
        for (part, _) in self.parts.iter().filter(|(part, _)| !is_folder(part)) {
            let (Some(path), Some(place)) = (part.path(outputs), part.find(outputs)) else {
                continue;
            };
            match place.and_then(|place| place.remove()) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("removing {}: {e}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// In words, the first thing that is not as in another one; None if they are the same.
    pub fn difference(&self, other: &Self, outputs: &[PathBuf]) -> Option<String> {
        let place = self.parts.iter().zip(&other.parts).position(|(a, b)| a != b);
        let longer = self.parts.len().max(other.parts.len());
        let place = place
            .or((self.parts.len() != other.parts.len()).then(|| self.parts.len().min(other.parts.len())))?;
        let part = self
            .parts
            .get(place)
            .or(other.parts.get(place))
            .map(|(part, _)| part);
        let name = match part {
            Some(Part::Stdout) | None => "what it prints".to_owned(),
            Some(Part::Stderr) => "what it prints on standard error".to_owned(),
            Some(part) => part.path(outputs).unwrap_or_default().display().to_string(),
        };
        Some(format!("{name} differs, the {}. of {longer} parts", place + 1))
    }

    /// Bytes of a part that is not a file.
    pub fn stream(&self, wanted: &Part) -> &[u8] {
        self.parts
            .iter()
            .find(|(part, _)| part == wanted)
            .map_or(&[], |(_, bytes)| bytes)
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.parts
            .iter()
            .filter(|(part, _)| matches!(part, Part::File { .. }))
            .count()
    }

    /// Length of all parts in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The layout of the element.
    pub fn layout(&self) -> String {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            kind: &'a str,
            parts: Vec<(&'a Part, u64)>,
            made: u64,
        }
        let parts = self
            .parts
            .iter()
            .map(|(part, bytes)| (part, bytes.len() as u64))
            .collect();
        let (kind, made) = (KIND, self.made);
        serde_json::to_string(&Borrowed { kind, parts, made }).unwrap_or_default()
    }

    /// Reads an element.
    ///
    /// # Errors
    /// If it is not one of ours.
    pub fn decode(layout: &str, mut bytes: &[u8]) -> Result<Self, String> {
        let layout: Layout = serde_json::from_str(layout).map_err(|e| e.to_string())?;
        if layout.kind != KIND {
            return Err(format!("{} is not what a command left", layout.kind));
        }
        let mut parts = Vec::new();
        for (part, len) in layout.parts {
            part.check()?;
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let (this, rest) = bytes.split_at_checked(len).ok_or("the element is too short")?;
            bytes = rest;
            parts.push((part, this.to_vec()));
        }
        let made = layout.made;
        Ok(Self { made, parts })
    }
}

/// Marks layouts of this kind.
const KIND: &str = "run";
