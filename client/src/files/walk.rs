//! The files that a declared input stands for.

use crate::error::{Code, Error, Result};
use crate::files::content::missing;
use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of one call. More are better declared as a version of their own than hashed at each call.
const FILES_MAX: usize = 1_000_000;

/// A file and its name below the input that named it; empty for the input itself.
pub(crate) type Named = (Vec<u8>, PathBuf);

/// A file by itself, or all files below a folder, sorted by name. Symbolic links are followed, each folder is entered
/// once, so that loops end.
///
/// # Errors
/// `input-missing` if it or a file below is not there, `too-large` past a million files.
pub(crate) fn walk(root: &Path) -> Result<Vec<Named>> {
    let mut files = Vec::new();
    let mut entered = HashSet::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(path) = pending.pop() {
        let found = fs::metadata(&path).map_err(|e| missing(&path, e))?;
        if !found.is_dir() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            files.push((name.as_os_str().as_bytes().to_vec(), path));
        } else if entered.insert((found.dev(), found.ino())) {
            let mut below = Vec::new();
            for entry in fs::read_dir(&path).map_err(|e| missing(&path, e))? {
                below.push(entry.map_err(|e| missing(&path, e))?.path());
            }
            // Last first, since they are taken from the end: which name a folder with two is entered by must not
            // depend on the order the file system lists them in.
            below.sort_unstable_by(|a, b| b.cmp(a));
            pending.append(&mut below);
        }
        if files.len() + pending.len() > FILES_MAX {
            return Err(Error::new(
                Code::TooLarge,
                format!(
                    "{} holds more than {FILES_MAX} files: declare fewer inputs",
                    root.display()
                ),
            ));
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_files_by_name_and_loops_end() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir(root.join("b")).unwrap();
        fs::write(root.join("b/2"), "two").unwrap();
        fs::write(root.join("a"), "one").unwrap();
        std::os::unix::fs::symlink("..", root.join("b/loop")).unwrap();
        let names: Vec<_> = walk(root).unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(names, [b"a".to_vec(), b"b/2".to_vec()]);
        let alone = walk(&root.join("a")).unwrap();
        assert_eq!(alone, [(Vec::new(), root.join("a"))]);
    }

    #[test]
    fn a_missing_input_and_a_dangling_link_are_named() {
        let temp = tempfile::tempdir().unwrap();
        let absent = temp.path().join("absent");
        let error = walk(&absent).unwrap_err();
        assert_eq!(error.code(), Code::InputMissing);
        assert!(error.to_string().contains("absent"));
        std::os::unix::fs::symlink(&absent, temp.path().join("dangling")).unwrap();
        assert!(walk(temp.path()).is_err());
    }
}
