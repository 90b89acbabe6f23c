//! A disk in memory.

use crate::memory_file::MemoryFile;
use parking_lot::{Mutex, MutexGuard};
use prebake_daemon::{
    Error, Result,
    vfs::{Vfs, VfsFile},
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Default)]
pub struct MemoryDisk(Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>);

impl MemoryDisk {
    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<MemoryFile>>> {
        self.0.lock()
    }

    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.files()
            .insert(path.to_owned(), Arc::new(MemoryFile::new(bytes)));
    }
}

fn absent() -> Error {
    Error::io("opening", io::ErrorKind::NotFound.into())
}

impl Vfs for MemoryDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        self.put(path, Vec::new());
        self.open(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn VfsFile>> {
        match self.files().get(path) {
            Some(file) => Ok(Arc::clone(file) as _),
            None => Err(absent()),
        }
    }

    fn publish(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(absent)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files().remove(path);
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        let files = self.files();
        let within = files.iter().filter(|(path, _)| path.parent() == Some(folder));
        let entry = |(path, file): (&PathBuf, &Arc<MemoryFile>)| {
            let name = path.file_name()?.to_str()?;
            Some((name.to_owned(), file.len().ok()?))
        };
        Ok(within.filter_map(entry).collect())
    }
}
