//! Absolute paths of files, most of them in one folder or below it: that is kept once, and of each what comes after it.
//!
//! A first batch waits until all of a job's paths were taken: to fill fresh memory takes longer than all the rest of that.

use crate::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf, absolute};

/// The job may change its working directory later.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    absolute(path).map_err(|e| Error::internal(format!("cannot resolve {}: {e}", path.display())))
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct Paths {
    /// The bytes that all begin with, up to a slash and with it; empty if there is none.
    folder: Vec<u8>,
    /// What follows in each, one after the other.
    rests: Vec<u8>,
    /// Where each ends in `rests`.
    ends: Vec<usize>,
}

impl Paths {
    /// With room for `count`.
    #[must_use]
    pub fn with_capacity(count: usize) -> Paths {
        Paths {
            ends: Vec::with_capacity(count),
            ..Paths::default()
        }
    }

    /// Those of a list, in order; see [`Paths::push`].
    ///
    /// # Errors
    /// `internal` if a relative path cannot be resolved.
    pub fn of<P: AsRef<Path>>(given: &[P]) -> Result<Paths> {
        let mut paths = Paths::with_capacity(given.len());
        given.iter().try_for_each(|path| paths.push(path.as_ref()))?;
        Ok(paths)
    }

    /// Adds one; what is relative is below the working folder as it is now. An empty one leads nowhere.
    ///
    /// # Errors
    /// `internal` if a relative path cannot be resolved.
    pub fn push(&mut self, path: &Path) -> Result<()> {
        if path.is_absolute() || path.as_os_str().is_empty() {
            self.push_absolute(path.as_os_str().as_bytes());
        } else {
            self.push_absolute(resolve(path)?.as_os_str().as_bytes());
        }
        Ok(())
    }

    /// Adds one that begins with a slash, or is empty.
    pub fn push_absolute(&mut self, path: &[u8]) {
        if self.ends.is_empty() {
            self.folder.extend_from_slice(&path[..after_slash(path)]);
            // Names of one data set are about as long as each other.
            let rest = path.len() - self.folder.len();
            self.rests.reserve(rest * self.ends.capacity());
        } else if !path.starts_with(&self.folder) {
            let same = self.folder.iter().zip(path).take_while(|(a, b)| a == b);
            let common = &path[..same.count()];
            self.leave(after_slash(common));
        }
        self.rests.extend_from_slice(&path[self.folder.len()..]);
        self.ends.push(self.rests.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The path of file `i`.
    pub(crate) fn get(&self, i: usize) -> PathBuf {
        let rest = self.rest(i);
        let mut path = Vec::with_capacity(self.folder.len() + rest.len());
        path.extend_from_slice(&self.folder);
        path.extend_from_slice(rest);
        PathBuf::from(OsString::from_vec(path))
    }

    /// The deepest folder that all are below, by their names.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let end = match self.folder.len() {
            length @ 0..=1 => length,
            length => length - 1,
        };
        PathBuf::from(OsStr::from_bytes(&self.folder[..end]))
    }

    fn rest(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rests[start..self.ends[i]]
    }

    /// Keeps only so many bytes of the folder; the others come before each rest.
    fn leave(&mut self, kept: usize) {
        let moved = self.folder.split_off(kept);
        let mut rests = Vec::with_capacity(self.rests.len() + moved.len() * self.ends.len());
        for i in 0..self.ends.len() {
            rests.extend_from_slice(&moved);
            rests.extend_from_slice(self.rest(i));
        }
        for (i, end) in self.ends.iter_mut().enumerate() {
            *end += moved.len() * (i + 1);
        }
        self.rests = rests;
    }
}

/// Where the part after the last slash begins.
fn after_slash(path: &[u8]) -> usize {
    path.iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_what_was_given() {
        let given = [
            "/a/b/1",
            "/a/b//2",
            "/a/b/c/./3/",
            "/a/bc/4",
            "/a/b/5",
            "",
            "/d",
            "//e",
            "/a/b/6",
        ];
        for count in 1..=given.len() {
            let paths = Paths::of(&given[..count]).unwrap();
            let got: Vec<PathBuf> = (0..paths.len()).map(|i| paths.get(i)).collect();
            let got: Vec<&OsStr> = got.iter().map(|path| path.as_os_str()).collect();
            assert_eq!(got, given[..count]);
        }
    }

    #[test]
    fn relative_ones_are_below_the_working_folder() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(Paths::of(&["a/b"]).unwrap().get(0), here.join("a/b"));
    }

    #[test]
    fn they_have_the_deepest_folder_in_common() {
        let common = |given: &[&str]| Paths::of(given).unwrap().folder();
        assert_eq!(common(&["/a/b/1", "/a/b/2"]), Path::new("/a/b"));
        assert_eq!(common(&["/a/b/1"]), Path::new("/a/b"));
        assert_eq!(common(&["/a/b/1", "/a/bc/1"]), Path::new("/a"));
        assert_eq!(common(&["/a/b/12", "/a/b/123"]), Path::new("/a/b"));
        assert_eq!(common(&["/a/b/1", "/c"]), Path::new("/"));
        assert_eq!(common(&["/a/b/1", ""]), Path::new(""));
        assert_eq!(common(&[]), Path::new(""));
    }
}
