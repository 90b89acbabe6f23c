//! What is said of a command that was traced.

use prebake_fingerprint::{Digest, FileStat};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path: text, or a list of its bytes where it is not UTF-8.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[serde(untagged)]
pub enum Name {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Name {
        let bytes = || Name::Bytes(path.as_os_str().as_bytes().to_vec());
        path.to_str()
            .map_or_else(bytes, |text| Name::Text(text.to_owned()))
    }
}

impl Name {
    /// The path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Name::Text(text) => text.into(),
            Name::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }
}

/// A file as it was when it was opened.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// device, inode, size, time of the last change of content and of anything, in nanoseconds since 1970.
    pub stat: (u64, u64, u64, i64, i64),
    /// Its content, if it was changed so recently that another change might not show in the times.
    pub content: Option<Digest>,
}

impl Stamp {
    pub(super) fn of(stat: &FileStat, content: Option<Digest>) -> Stamp {
        Stamp {
            stat: (stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns),
            content,
        }
    }
}

/// Nothing is there. A command that looks for it says that its preparations are over.
pub const LOADED: &str = "/dev/.prebake-loaded";

/// All that a command did as far as it counts. Paths are absolute and without symbolic links; links that were followed are
/// in `seen`. Files that the command made itself are not in it, nor what is declared.
#[derive(Serialize, Deserialize, Debug, Default, Clone)]
#[serde(default)]
pub struct Report {
    /// Whether nothing was missed.
    pub complete: bool,
    /// If not, the first reason.
    pub why: String,
    /// A name that was looked for or a folder that was listed, and that others changed meanwhile: what was seen there may be of
    /// before or after.
    pub changed: Option<Name>,
    /// Files whose content was or could be read, or which were executed.
    pub reads: Vec<Name>,
    /// Those that were read before the command looked for `LOADED`; none if it never did.
    pub loaded: Vec<Name>,
    /// How each of them was found.
    pub stamps: Vec<Stamp>,
    /// Names that were looked for and not there.
    pub absent: Vec<Name>,
    /// Names that were there, with what a look at them shows.
    pub seen: Vec<(Name, String)>,
    /// Folders that were listed.
    pub listed: Vec<Name>,
    /// Digest of the names in each of them.
    pub names: Vec<Digest>,
    /// What was written outside of the outputs and temporary folders (the first few).
    pub writes: Vec<Name>,
    /// What it was not let write, being a trial (the first few).
    pub refused: Vec<Name>,
    /// Who was talked to (the first few).
    pub network: Vec<String>,
    /// What lay in the outputs before and was looked at (the first few).
    pub leftovers: Vec<Name>,
    /// Exit code, if it was not killed.
    pub exit: Option<i32>,
    /// The signal it was killed by.
    pub signal: Option<i32>,
    /// Why it could not be started, as an error number of the system.
    pub failed: Option<i32>,
    /// Whether processes that it started are still there.
    pub left: bool,
    /// CPU time of it and its children that ended, in nanoseconds.
    pub cpu_ns: u64,
}
