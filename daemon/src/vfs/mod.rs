//! The file system, injected: everything the daemon writes and reads on disk goes through here, so
//! that faults can be put at every step.

pub mod faults;
pub mod folder;

use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags, openat};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

/// An open file.
pub trait VfsFile: Send + Sync + 'static {
    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// As the file system says; `disk-full` when there is no space.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Fills the buffer from an offset; a short file is an error.
    ///
    /// # Errors
    /// As the file system says.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()>;
    /// Makes the content durable (fdatasync). After a failure the content is unknown: the caller
    /// must give the file up and never try again (Rebello et al., ATC'20).
    ///
    /// # Errors
    /// As the file system says.
    fn sync(&self) -> Result<()>;
    /// Its length in bytes.
    ///
    /// # Errors
    /// As the file system says.
    fn len(&self) -> Result<u64>;
    /// Whether it holds nothing.
    ///
    /// # Errors
    /// As the file system says.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// What the daemon needs of a file system.
pub trait Vfs: Send + Sync + 'static {
    /// Makes a new file that nobody else can read; it must not exist.
    ///
    /// # Errors
    /// As the file system says.
    fn create(&self, path: &Path) -> Result<Arc<dyn VfsFile>>;
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As the file system says.
    fn open(&self, path: &Path) -> Result<Arc<dyn VfsFile>>;
    /// Renames within a folder and makes the new name durable.
    ///
    /// # Errors
    /// As the file system says.
    fn publish(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// As the file system says.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes it durable that files of a folder were removed.
    ///
    /// # Errors
    /// As the file system says.
    fn sync_folder(&self, folder: &Path) -> Result<()>;
    /// Names of the files in a folder, and their sizes on disk.
    ///
    /// # Errors
    /// As the file system says.
    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>>;
}

/// The operating system's file system.
#[derive(Debug, Default)]
pub struct OsVfs;

struct OsFile {
    file: File,
    /// The same file without the page cache, where the file system can.
    direct: Option<File>,
}

impl OsFile {
    /// The way past the page cache for an access that begins there, if there is one.
    fn direct(&self, bytes: &[u8], offset: u64) -> Option<&File> {
        let places = [bytes.as_ptr().addr(), bytes.len(), offset as usize];
        let aligned = places.iter().all(|n| n.is_multiple_of(DIRECT_ALIGNMENT));
        self.direct.as_ref().filter(|_| aligned && !bytes.is_empty())
    }
}

/// Whether direct I/O is not to be had for this access: some file systems say so only when it is tried.
fn is_refused(result: &std::io::Result<()>) -> bool {
    matches!(result, Err(e) if e.kind() == std::io::ErrorKind::InvalidInput)
}

fn open_direct(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .ok()
}

/// What direct I/O wants memory, offset and length to be multiples of, on every common device.
const DIRECT_ALIGNMENT: usize = 4096;

impl VfsFile for OsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        // Blocks are in shared memory already: a copy of them in the page cache helps nobody.
        let direct = self.direct(bytes, offset);
        let written = direct.map(|direct| direct.write_all_at(bytes, offset));
        written
            .filter(|written| !is_refused(written))
            .unwrap_or_else(|| self.file.write_all_at(bytes, offset))
            .map_err(|e| Error::io("writing a segment", e))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        // The end of a file is no whole page, of which the rest is read the other way.
        let whole = into.len() / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
        let (head, tail) = into.split_at_mut(whole);
        let direct = self.direct(head, offset);
        let read = direct.map(|direct| direct.read_exact_at(head, offset));
        let (rest, at) = match read.filter(|read| !is_refused(read)) {
            Some(read) => {
                read.map_err(|e| Error::io("reading a segment", e))?;
                (tail, offset + whole as u64)
            }
            None => (into, offset),
        };
        self.file
            .read_exact_at(rest, at)
            .map_err(|e| Error::io("reading a segment", e))?;
        // The RAM tier keeps these bytes: a second copy in the page cache helps nobody.
        if let Some(len) = std::num::NonZeroU64::new(rest.len() as u64) {
            let _ = rustix::fs::fadvise(&self.file, at, Some(len), rustix::fs::Advice::DontNeed);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|e| Error::io("syncing a segment", e))?;
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let meta = self.file.metadata();
        Ok(meta.map_err(|e| Error::io("reading a file's size", e))?.len())
    }
}

impl Vfs for OsVfs {
    fn create(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        let failed = |e| Error::io(format_args!("creating {}", path.display()), e);
        let folder = path.parent().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default();
        if !folder.exists() {
            // Somebody removed the folder of the segments, and left the one that it is in.
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(failed(e)),
                _ => File::open(folder.parent().unwrap_or(folder))
                    .and_then(|parent| parent.sync_all())
                    .map_err(failed)?,
            }
        }
        // In the folder that was looked at, whatever has its name by then.
        let folder = folder::open_ours(folder)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(|e| failed(e.into()))?;
        let direct = openat(
            &folder,
            name,
            OFlags::RDWR | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let (file, direct) = (File::from(file), direct.ok().map(File::from));
        Ok(Arc::new(OsFile { file, direct }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        let failed = |e| Error::io(format_args!("opening {}", path.display()), e);
        // A link leads to what nobody checked, and a pipe keeps waiting who opens it.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(failed)?;
        folder::our_file(path, &rustix::fs::fstat(&file).map_err(|e| failed(e.into()))?)?;
        // What is read the other way, ends of files and footers, is all that is wanted of its surroundings.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let direct = open_direct(path);
        Ok(Arc::new(OsFile { file, direct }))
    }

    fn publish(&self, from: &Path, to: &Path) -> Result<()> {
        let failed = |e| Error::io(format_args!("publishing {}", to.display()), e);
        std::fs::rename(from, to).map_err(failed)?;
        self.sync_folder(to.parent().unwrap_or(Path::new(".")))
    }

    fn sync_folder(&self, folder: &Path) -> Result<()> {
        let synced = File::open(folder).and_then(|f| f.sync_all());
        synced.map_err(|e| Error::io(format_args!("syncing {}", folder.display()), e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format_args!("removing {}", path.display()), e))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        let failed = |e| Error::io(format_args!("listing {}", folder.display()), e);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let meta = entry.metadata().map_err(failed)?;
            if let (true, Ok(name)) = (meta.is_file(), entry.file_name().into_string()) {
                files.push((name, meta.blocks() * 512));
            }
        }
        Ok(files)
    }
}
