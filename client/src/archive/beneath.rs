//! A place below a folder, reached without following a link: what is written there is nowhere else.

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fchmod, mkdirat, openat, renameat, symlinkat, unlinkat},
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Component, Path},
};

/// A name in a folder that is open.
pub struct Beneath {
    folder: OwnedFd,
    name: OsString,
}

/// To be passed through: its owner may forbid that it is read.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Of a folder that is made on the way, until its own is set.
const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

impl Beneath {
    /// The place `path` below `root`, or `root` itself if that is empty. Folders on the way are made. Links are followed
    /// as far as the folder of `root`, which its user named, and no farther.
    ///
    /// # Errors
    /// If something on the way is no folder, or `path` leads outside.
    pub fn open(root: &Path, path: &Path) -> io::Result<Self> {
        Self::reach(root, path, true)
    }

    /// The same, and nothing is made.
    ///
    /// # Errors
    /// Also if something on the way is not there.
    pub fn find(root: &Path, path: &Path) -> io::Result<Self> {
        Self::reach(root, path, false)
    }

    fn reach(root: &Path, path: &Path, makes: bool) -> io::Result<Self> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "it leads outside the output");
        let name = root.file_name().ok_or_else(outside)?.to_owned();
        let above = root.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        if makes {
            std::fs::create_dir_all(above)?;
        }
        let folder = openat(CWD, above, FOLDER, Mode::empty())?;
        path.components()
            .try_fold(Self { folder, name }, |at, part| match part {
                Component::Normal(name) => at.enter(name.to_owned(), makes),
                _ => Err(outside()),
            })
    }

    /// A name in this folder.
    fn enter(self, name: OsString, makes: bool) -> io::Result<Self> {
        let open = || openat(&self.folder, &self.name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let folder = match open() {
            Err(Errno::NOENT) if makes => {
                self.make_folder()?;
                open()?
            }
            folder => folder?,
        };
        Ok(Self { folder, name })
    }

    /// Removes the file or link here.
    ///
    /// # Errors
    /// If there is none, or it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Removes the folder here, if it is empty.
    ///
    /// # Errors
    /// If it is not, or cannot be removed.
    pub fn remove_folder(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a folder here, if there is nothing.
    ///
    /// # Errors
    /// If it cannot be made. Something else with its name is found out when it is entered.
    pub fn make_folder(&self) -> io::Result<()> {
        match mkdirat(&self.folder, &self.name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Sets the permission bits of the folder here.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.folder, &self.name, flags, Mode::empty())?;
        Ok(fchmod(folder, Mode::from_raw_mode(mode))?)
    }

    /// Writes a file, whole or not at all, in place of what is here.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.replace(|temporary| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&self.folder, temporary, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(bytes)?;
            Ok(fchmod(file, Mode::from_raw_mode(mode))?)
        })
    }

    /// Makes a symbolic link in place of what is here.
    ///
    /// # Errors
    /// As the file system says.
    pub fn link(&self, target: &str) -> io::Result<()> {
        self.replace(|temporary| Ok(symlinkat(target, &self.folder, temporary)?))
    }

    fn replace(&self, make: impl FnOnce(&str) -> io::Result<()>) -> io::Result<()> {
        // Another process may restore the same, in another container with the same number.
        let mut drawn = [0; 8];
        getrandom(&mut drawn, GetRandomFlags::empty())?;
        let temporary = &format!(".prebake-{:016x}", u64::from_ne_bytes(drawn));
        let made =
            make(temporary).and_then(|()| Ok(renameat(&self.folder, temporary, &self.folder, &self.name)?));
        if made.is_err() {
            let _ = unlinkat(&self.folder, temporary, AtFlags::empty());
        }
        made
    }
}
