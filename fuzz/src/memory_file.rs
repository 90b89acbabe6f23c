//! A file in memory.

use parking_lot::{Mutex, MutexGuard};
use prebake_daemon::{Error, Result, vfs::VfsFile};
use std::io;

pub struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(bytes))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock()
    }
}

impl VfsFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut all = self.bytes();
        let end = at.saturating_add(bytes.len()).max(all.len());
        all.resize(end, 0);
        all[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = at.saturating_add(into.len());
        let all = self.bytes();
        let found = all.get(at..end);
        let found = found.ok_or_else(|| Error::io("reading", io::ErrorKind::UnexpectedEof.into()))?;
        into.copy_from_slice(found);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes().len() as u64)
    }
}
