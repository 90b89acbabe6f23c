//! One thing that a command left behind: where it lies, and how it is written back.

use super::beneath::Beneath;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
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

impl Part {
    pub(super) fn path(&self, outputs: &[PathBuf]) -> Option<PathBuf> {
        let (root, path) = self.below(outputs)?;
        // A separator at its end would follow a link.
        Some(match path.as_os_str().is_empty() {
            true => root.to_owned(),
            false => root.join(path),
        })
    }

    /// # Errors
    /// If it names something outside its output, or a mode that is not given back.
    pub(super) fn check(&self) -> Result<(), String> {
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
    pub(super) fn place(&self, outputs: &[PathBuf]) -> Option<io::Result<Beneath>> {
        let (root, path) = self.below(outputs)?;
        Some(Beneath::open(root, path))
    }

    /// Where it lies.
    pub(super) fn find(&self, outputs: &[PathBuf]) -> Option<io::Result<Beneath>> {
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

    pub(super) fn is_of_kind(&self, meta: &fs::Metadata) -> bool {
        match self {
            Self::File { .. } => meta.is_file(),
            Self::Folder { .. } => meta.is_dir(),
            Self::Link { .. } => meta.is_symlink(),
            Self::Stdout | Self::Stderr => false,
        }
    }

    pub(super) fn write(&self, outputs: &[PathBuf], bytes: &[u8]) -> io::Result<()> {
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

/// What lies at a path of an output, with its bytes.
pub(super) fn part(
    output: usize,
    path: String,
    at: &Path,
    meta: &fs::Metadata,
) -> Result<(Part, Vec<u8>), String> {
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
