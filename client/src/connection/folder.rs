//! The folder that a daemon and its clients meet in.

use crate::error::{Code, Error, Result};
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `sun_path` of `sockaddr_un` holds 108 bytes, the last of them zero.
const SOCKET_PATH_MAX: usize = 107;

/// A Prebake folder: `prebake.sock` (gRPC), `data.sock` (descriptors), `daemon.log` and the cache itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder given, else `$PREBAKE_DIR`, else `$XDG_CACHE_HOME/prebake`, else `~/.cache/prebake`; made absolute.
    ///
    /// # Errors
    /// `socket-path-too-long` if a socket in it could not be bound; `internal` if nothing names a folder.
    pub fn resolve(given: Option<&Path>) -> Result<Folder> {
        let from_env = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let path = given
            .map(Path::to_path_buf)
            .or_else(|| from_env("PREBAKE_DIR"))
            .or_else(|| from_env("XDG_CACHE_HOME").map(|p| p.join("prebake")))
            .or_else(|| from_env("HOME").map(|p| p.join(".cache/prebake")))
            .ok_or_else(|| Error::internal("no folder to use: set PREBAKE_DIR"))?;
        let path = std::path::absolute(&path)
            .map_err(|e| Error::internal(format!("cannot resolve {}: {e}", path.display())))?;
        let folder = Folder(path);
        let longest = folder.control_socket();
        let length = longest.as_os_str().len();
        if length > SOCKET_PATH_MAX {
            return Err(Error::new(
                Code::SocketPathTooLong,
                format!(
                    "the socket path {} has {length} bytes, the kernel allows {SOCKET_PATH_MAX}: set PREBAKE_DIR to a \
                     shorter folder",
                    longest.display()
                ),
            ));
        }
        Ok(folder)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where gRPC is served. The longest of the socket names.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("prebake.sock")
    }

    /// Where descriptors are handed over.
    #[must_use]
    pub fn data_socket(&self) -> PathBuf {
        self.0.join("data.sock")
    }

    /// Whether a daemon has the folder, listening or not yet. Its lock is looked up, not tried: one that starts at that moment
    /// would find the folder taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let Ok(lock) = fs::metadata(self.0.join("lock")) else {
            return false;
        };
        // The device is another one there where the file system has several (btrfs, overlays).
        let inode = format!(":{}", lock.ino());
        let is_of = |line: &str| line.contains("FLOCK") && line.split(' ').any(|word| word.ends_with(&inode));
        // Where there is no such list, one may.
        fs::read_to_string("/proc/locks").map_or(true, |locks| locks.lines().any(is_of))
    }

    /// Where a daemon that a client started writes its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("daemon.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_folder_is_made_absolute() {
        let folder = Folder::resolve(Some(Path::new("some/where"))).unwrap();
        assert!(folder.path().is_absolute());
        assert!(folder.control_socket().ends_with("some/where/prebake.sock"));
    }

    #[test]
    fn the_longest_path_that_fits_is_taken_and_one_more_byte_is_refused() {
        let room = SOCKET_PATH_MAX - "/prebake.sock".len();
        let fits = format!("/{}", "x".repeat(room - 1));
        assert!(Folder::resolve(Some(Path::new(&fits))).is_ok());
        let long = format!("{fits}x");
        let error = Folder::resolve(Some(Path::new(&long))).unwrap_err();
        assert_eq!(error.code().as_str(), "socket-path-too-long");
        assert!(error.to_string().contains("PREBAKE_DIR"));
    }
}
