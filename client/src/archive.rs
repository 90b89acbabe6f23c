//! What a command left behind, as one element: a list of parts (JSON, the element's layout) and their
//! bytes side by side.

use crate::{Clock, SystemClock, beneath::Beneath};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

/// Permission bits.
const MODE_MASK: u32 = 0o7777;

/// Those that a file is given back. A cache does not make a program run as another user or group.
const FILE_MODE_MASK: u32 = 0o777;

/// One thing a command left.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// What it printed.
    Stdout,
    /// What it printed on standard error.
    Stderr,
    /// A file.
    File {
        /// Below which output: its place among the declared ones.
        output: usize,
        /// Where below it; empty for the output itself.
        path: String,
        /// Permission bits.
        mode: u32,
    },
    /// A folder.
    Folder {
        /// As a file's.
        output: usize,
        /// As a file's.
        path: String,
        /// As a file's.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// As a file's.
        output: usize,
        /// As a file's.
        path: String,
        /// Where it leads to: anywhere, as the command made it.
        target: String,
    },
}

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

/// Everything below the outputs that is no folder, to tell what a command made anew.
pub struct Before(HashSet<Inode>);

/// Device, inode and birth: an inode number alone is given again once its file is removed.
type Inode = (u64, u64, Option<SystemTime>);

impl Before {
    /// Looks at the outputs before the command runs.
    ///
    /// # Errors
    /// If they cannot be read whole.
    pub fn look(outputs: &[PathBuf]) -> Result<Self, String> {
        let mut seen = HashSet::new();
        for output in outputs {
            walk(output, &mut |_, meta| {
                if !meta.is_dir() {
                    seen.insert(inode(meta));
                }
                Ok(())
            })?;
        }
        Ok(Self(seen))
    }
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
                if before.0.contains(&inode(meta)) {
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

impl Part {
    fn path(&self, outputs: &[PathBuf]) -> Option<PathBuf> {
        let (root, path) = self.below(outputs)?;
        // A separator at its end would follow a link.
        Some(match path.as_os_str().is_empty() {
            true => root.to_owned(),
            false => root.join(path),
        })
    }

    /// # Errors
    /// If it names something outside its output, or a mode that is not given back.
    fn check(&self) -> Result<(), String> {
        let (path, mode, mask) = match self {
            Self::Stdout | Self::Stderr => return Ok(()),
            Self::File { path, mode, .. } => (path, *mode, FILE_MODE_MASK),
            Self::Folder { path, mode, .. } => (path, *mode, MODE_MASK),
            Self::Link { path, .. } => (path, 0, 0),
        };
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(path).components().all(is_below) {
            return Err(format!("{path} is outside the output"));
        }
        match mode & !mask {
            0 => Ok(()),
            _ => Err(format!("the mode {mode:o} of {path} is not given back")),
        }
    }

    /// Where it is written to.
    fn place(&self, outputs: &[PathBuf]) -> Option<io::Result<Beneath>> {
        let (root, path) = self.below(outputs)?;
        Some(Beneath::open(root, path))
    }

    /// Where it lies.
    fn find(&self, outputs: &[PathBuf]) -> Option<io::Result<Beneath>> {
        let (root, path) = self.below(outputs)?;
        Some(Beneath::find(root, path))
    }

    fn below<'a>(&'a self, outputs: &'a [PathBuf]) -> Option<(&'a Path, &'a Path)> {
        let (Self::File { output, path, .. }
        | Self::Folder { output, path, .. }
        | Self::Link { output, path, .. }) = self
        else {
            return None;
        };
        Some((outputs.get(*output)?, Path::new(path)))
    }

    fn is_of_kind(&self, meta: &fs::Metadata) -> bool {
        match self {
            Self::File { .. } => meta.is_file(),
            Self::Folder { .. } => meta.is_dir(),
            Self::Link { .. } => meta.is_symlink(),
            Self::Stdout | Self::Stderr => false,
        }
    }

    fn write(&self, outputs: &[PathBuf], bytes: &[u8]) -> io::Result<()> {
        let Some(place) = self.place(outputs) else {
            return Ok(());
        };
        match self {
            Self::File { mode, .. } => place?.write(bytes, *mode),
            Self::Link { target, .. } => place?.link(target),
            Self::Folder { .. } => place?.make_folder(),
            Self::Stdout | Self::Stderr => Ok(()),
        }
    }
}

fn part(output: usize, path: String, at: &Path, meta: &fs::Metadata) -> Result<(Part, Vec<u8>), String> {
    let failed = |e: io::Error| format!("{}: {e}", at.display());
    let mode = meta.mode() & MODE_MASK;
    if meta.is_dir() {
        Ok((Part::Folder { output, path, mode }, Vec::new()))
    } else if meta.is_symlink() {
        let target = fs::read_link(at).map_err(failed)?;
        let target = target
            .to_str()
            .ok_or_else(|| format!("{} is not UTF-8", target.display()))?;
        Ok((
            Part::Link {
                output,
                path,
                target: target.to_owned(),
            },
            Vec::new(),
        ))
    } else if meta.is_file() {
        if mode & !FILE_MODE_MASK != 0 {
            return Err(format!(
                "{} runs as its owner or its group (mode {mode:o}), which is not kept",
                at.display()
            ));
        }
        Ok((Part::File { output, path, mode }, fs::read(at).map_err(failed)?))
    } else {
        Err(format!("{} is neither file, folder nor link", at.display()))
    }
}

fn inode(meta: &fs::Metadata) -> Inode {
    (meta.dev(), meta.ino(), meta.created().ok())
}

type Visit<'a> = &'a mut dyn FnMut(&Path, &fs::Metadata) -> Result<(), String>;

/// Visits a path and all below it, parents first, by name. A path that is not there is nothing to visit.
fn walk(root: &Path, visit: Visit<'_>) -> Result<(), String> {
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        let meta = match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && path == root => return Ok(()),
            meta => meta.map_err(failed)?,
        };
        visit(&path, &meta)?;
        if meta.is_dir() {
            let mut below = Vec::new();
            for entry in fs::read_dir(&path).map_err(failed)? {
                below.push(entry.map_err(failed)?.path());
            }
            below.sort_unstable_by(|a, b| b.cmp(a));
            pending.append(&mut below);
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn layout(part: &str) -> String {
        format!(r#"{{"kind":"run","parts":[[{part},0]],"made":1}}"#)
    }

    #[test]
    fn what_leads_outside_or_runs_as_somebody_is_no_archive() {
        let file =
            |path: &str, mode: u32| format!(r#"{{"file":{{"output":0,"path":"{path}","mode":{mode}}}}}"#);
        for good in [file("", 0o644), file("a/b", 0o755)] {
            assert!(Archive::decode(&layout(&good), b"").is_ok(), "{good}");
        }
        let outside = ["..", "../a", "a/../../b", "/etc/a", "./../a"].map(|path| file(path, 0o644));
        let modes = [0o4755, 0o2755, 0o1644, 0o100_644].map(|mode| file("a", mode));
        let others = [
            r#"{"folder":{"output":0,"path":"../a","mode":493}}"#,
            r#"{"link":{"output":0,"path":"/a","target":"b"}}"#,
        ];
        for bad in outside.iter().chain(&modes).map(String::as_str).chain(others) {
            assert!(Archive::decode(&layout(bad), b"").is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_in_an_output() {
        let folder = tempfile::tempdir().unwrap();
        let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
        fs::create_dir_all(&out).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, out.join("link")).unwrap();
        let file = |path: &str| Part::File {
            output: 0,
            path: path.into(),
            mode: 0o600,
        };
        let restore = |part: Part| {
            let parts = vec![(part, b"new".to_vec())];
            Archive { made: 1, parts }.restore(std::slice::from_ref(&out))
        };
        assert!(restore(file("link/file")).is_err());
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
        // In place of a link itself, and where folders are missing, a file is written.
        restore(file("link")).unwrap();
        restore(file("new/folder/file")).unwrap();
        assert_eq!(fs::read(out.join("link")).unwrap(), b"new");
        assert_eq!(fs::read(out.join("new/folder/file")).unwrap(), b"new");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_cannot_be_written_back_whole_is_not_written_back() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let outputs = std::slice::from_ref(&out);
        let file = |path: &str| Part::File {
            output: 0,
            path: path.into(),
            mode: 0o600,
        };
        let inside = |path: &str| Part::Folder {
            output: 0,
            path: path.into(),
            mode: 0o700,
        };
        let parts = [inside(""), inside("a"), file("a/one"), file("a/one/two")];
        let parts = parts.into_iter().map(|part| (part, b"new".to_vec())).collect();
        let archive = Archive { made: 1, parts };
        assert!(archive.restore(outputs).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // An earlier run's are the user's: nothing of them is lost.
        fs::create_dir_all(out.join("a")).unwrap();
        fs::write(out.join("a/one"), b"old").unwrap();
        assert!(archive.restore(outputs).is_err());
        assert!(out.join("a/one").exists());
    }

    #[test]
    fn what_an_output_holds_is_known_by_kind_and_never_removed_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
        fs::create_dir_all(&out).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), b"mine").unwrap();
        std::os::unix::fs::symlink(&outside, out.join("link")).unwrap();
        let outputs = std::slice::from_ref(&out);
        let below = |path: &str| {
            (
                Part::File {
                    output: 0,
                    path: path.into(),
                    mode: 0o600,
                },
                Vec::new(),
            )
        };
        let link = Part::Link {
            output: 0,
            path: "link".into(),
            target: outside.to_str().unwrap().into(),
        };
        let parts = vec![below("link/file"), (link, Vec::new())];
        let archive = Archive { made: 1, parts };
        assert!(archive.covers(outputs));
        assert!(archive.remove(outputs).is_err());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
        let parts = vec![below("link")];
        assert!(!Archive { made: 1, parts }.covers(outputs));
    }
}
