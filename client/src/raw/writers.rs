//! Whether anybody may write to a file without its stat telling.

use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Which signal tells that a lease is broken (`fcntl(2)`).
const F_SETSIG: libc::c_int = 10;

/// Whether a process has the file open for writing, or mapped so. What is written through a mapping gives the file a new
/// time only where a page is written to first: from then on, until the page is on the disk, it changes unseen.
///
/// The kernel grants a lease for reading on a file that nobody writes to (`fcntl`, `F_SETLEASE`); it is given back at once.
/// Of another user's file, and where there are no leases (NFS, FUSE), this says no.
pub(crate) fn has_writer(file: &impl AsFd) -> bool {
    let fd = file.as_fd().as_raw_fd();
    // Whoever opens the file meanwhile has the lease broken, which is told by a signal: by one that ends no process, as
    // SIGIO would.
    if !fcntl(fd, F_SETSIG, libc::SIGURG) {
        return false;
    }
    if fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
        return false;
    }
    std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
}

fn fcntl(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> bool {
    // SAFETY: an open descriptor, which its owner lends for the call; these commands take a number and no memory.
    unsafe { libc::fcntl(fd, command, argument) == 0 }
}

#[cfg(test)]
mod tests {
    use super::has_writer;
    use crate::files::content::may_change_unseen;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::fs::File;
    use std::ptr;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn who_writes_is_seen_also_through_a_mapping() {
        let named = tempfile::NamedTempFile::new().unwrap();
        named.as_file().set_len(4096).unwrap();
        let path = named.into_temp_path();
        let reader = File::open(&path).unwrap();
        assert!(!has_writer(&reader));
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        assert!(has_writer(&reader));
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a map of its own at no given address.
        let map = unsafe { mmap(ptr::null_mut(), 4096, both, MapFlags::SHARED, &writer, 0) }.unwrap();
        drop(writer);
        assert!(has_writer(&reader), "its descriptor is closed, the map is there");
        // SAFETY: made above, and nothing refers to it.
        unsafe { munmap(map, 4096) }.unwrap();
        assert!(!has_writer(&reader));
        assert!(!has_writer(&reader), "no lease is left");
    }

    #[test]
    fn what_is_written_through_a_mapping_is_told_by_the_stat_or_known_to_be_untold() {
        // tmpfs never tells.
        for (folder, tells) in [(std::env::temp_dir(), None), ("/dev/shm".into(), Some(false))] {
            let named = tempfile::NamedTempFile::new_in(&folder).unwrap();
            named.as_file().set_len(4096).unwrap();
            let both = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a map of its own at no given address.
            let map =
                unsafe { mmap(ptr::null_mut(), 4096, both, MapFlags::SHARED, named.as_file(), 0) }.unwrap();
            let write = |byte: u8| {
                // SAFETY: the first byte of the map, which nothing else refers to.
                unsafe { map.cast::<u8>().write_volatile(byte) };
            };
            let reader = File::open(named.path()).unwrap();
            let time = || reader.metadata().unwrap().modified().unwrap();
            write(1);
            let untold = may_change_unseen(&reader);
            let before = time();
            // Longer than a tick of the clock that files are stamped with.
            sleep(Duration::from_millis(20));
            write(2);
            assert_eq!(untold, time() == before, "{folder:?}");
            assert!(tells.is_none_or(|tells| tells != untold), "{folder:?}");
            // SAFETY: made above, and nothing refers to it.
            unsafe { munmap(map, 4096) }.unwrap();
        }
    }
}
