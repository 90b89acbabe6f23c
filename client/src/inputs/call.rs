//! The input of one call: its arguments and every file below what it reads.

use super::Stamp;
use crate::clock::Clock;
use crate::error::Result;
use crate::files::content::{Content, Memo, contents, observe};
use crate::files::walk::{Named, walk};
use prebake_fingerprint::{Digest, input};
use std::path::PathBuf;

/// A call.
pub(crate) struct Call {
    pub(super) name: String,
    pub(super) arguments: Digest,
    /// What it reads that is no file.
    pub(super) objects: Option<Digest>,
    pub(super) roots: Vec<PathBuf>,
    pub(super) known: Option<KnownCall>,
}

pub(super) struct KnownCall {
    pub(super) fingerprint: Digest,
    pub(super) stamp: Stamp,
    racy: bool,
}

impl Call {
    /// The files, named by which input they belong to and their path below it: moving an input changes nothing.
    fn walk(&self) -> Result<Vec<Named>> {
        let mut files = Vec::new();
        for (which, root) in self.roots.iter().enumerate() {
            for (name, path) in walk(root)? {
                let mut full = format!("{which}/").into_bytes();
                full.extend(name);
                files.push((full, path));
            }
        }
        Ok(files)
    }

    pub(super) fn is_racy(&self) -> bool {
        self.known.as_ref().is_none_or(|known| known.racy)
    }

    pub(super) fn holds(&self) -> bool {
        let Some(known) = self.known.as_ref().filter(|known| !known.racy) else {
            return false;
        };
        let Ok(files) = self.walk() else {
            return false;
        };
        files.len() == known.stamp.len()
            && files
                .iter()
                .zip(&*known.stamp)
                .all(|((name, path), (known_name, known_stat))| {
                    name == known_name && observe(path).is_ok_and(|seen| seen.stat == *known_stat)
                })
    }

    pub(super) fn refresh(&mut self, memo: &dyn Memo, clock: &dyn Clock) -> Result<bool> {
        if self.holds() {
            return Ok(false);
        }
        let before = self.known.take();
        let files = self.walk()?;
        let contents: Vec<Content> = contents(files.iter().map(|(_, path)| path.as_path()), memo, clock)
            .into_iter()
            .collect::<Result<_>>()?;
        let named = files.iter().map(|(name, _)| name);
        let root = input::directory(named.zip(contents.iter().map(|c| c.digest)));
        let fingerprint = match &self.objects {
            Some(objects) => input::arguments(&input::arguments(&self.arguments, objects), &root),
            None => input::arguments(&self.arguments, &root),
        };
        self.known = Some(KnownCall {
            fingerprint,
            racy: contents.iter().any(|c| c.racy),
            stamp: files
                .into_iter()
                .zip(&contents)
                .map(|((name, _), content)| (name, content.stat))
                .collect(),
        });
        Ok(before.is_some_and(|known| known.fingerprint != fingerprint))
    }
}
