//! The files a program is made of when it begins, which the kernel opens itself.

use super::record::Found;
use super::tracee::{PATH_BYTES, PATH_BYTES_MAX};
use super::tracer::Tracer;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program named by a program's first line may be named that way itself, so often (binfmt_script).
const INTERPRETERS_MAX: usize = 5;

impl Tracer {
    /// A program began: it, who interprets it, and who links it.
    pub(super) fn executed(&mut self, tid: i32, program: Option<Found>) {
        self.check_name_space(tid);
        let mut next = program.map(|found| found.path);
        for _ in 0..INTERPRETERS_MAX {
            let Some(path) = next.take() else { break };
            if let Ok(meta) = fs::metadata(&path) {
                if meta.mode() & (libc::S_ISUID | libc::S_ISGID) != 0 {
                    let why = format!(
                        "{} asks for rights that a traced program does not get",
                        path.display()
                    );
                    self.record.incomplete(why);
                }
                self.record.content(&path, &meta, &path);
                next =
                    interpreter(&path).map(|path| self.record.resolve(tid, Path::new("/"), &path, true).path);
            }
        }
        // Its own file and its linker are all that is mapped by now; the kernel opened them.
        let maps = fs::read(format!("/proc/{tid}/maps")).unwrap_or_default();
        let mapped: HashSet<&[u8]> = maps.split(|b| *b == b'\n').filter_map(path_of_map).collect();
        if mapped.is_empty() {
            self.record
                .incomplete("a program could not be looked at when it began");
        }
        for path in mapped {
            let path = Path::new(OsStr::from_bytes(path));
            match fs::metadata(path) {
                Ok(meta) => self.record.content(path, &meta, path),
                Err(e) => self.record.incomplete(format!("{}: {e}", path.display())),
            }
        }
        if let Some(path) = linker(Path::new(&format!("/proc/{tid}/exe"))) {
            // The links to it count as well.
            self.record.resolve(tid, Path::new("/"), &path, true);
        }
    }
}

/// Of a line of /proc/PID/maps, the sixth field if it is a file's.
fn path_of_map(line: &[u8]) -> Option<&[u8]> {
    let start = line.iter().position(|byte| *byte == b'/')?;
    Some(&line[start..])
}

/// Who interprets a script, by its first line.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut first = [0; PATH_BYTES];
    let len = File::open(script)
        .and_then(|mut file| file.read(&mut first))
        .ok()?;
    let line = first[..len]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let word = words.find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(word).into())
}

/// Who links a program, as the program names it (its `PT_INTERP` header): a path in the first page.
fn linker(program: &Path) -> Option<PathBuf> {
    let mut head = vec![0; PATH_BYTES_MAX];
    let len = File::open(program)
        .and_then(|mut file| file.read(&mut head))
        .ok()?;
    let head = head[..len]
        .strip_prefix(b"\x7fELF\x02\x01")
        .map(|_| &head[..len])?;
    let word = |at: usize| usize::try_from(u64::from_le_bytes(*head.get(at..)?.first_chunk()?)).ok();
    let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let (table, size, count) = (word(32)?, usize::from(half(54)?), usize::from(half(56)?));
    (0..count).find_map(|i| {
        let at = table.checked_add(i * size)?;
        let kind = u32::from_le_bytes(*head.get(at..)?.first_chunk()?);
        let (start, len) = (word(at.checked_add(8)?)?, word(at.checked_add(32)?)?);
        let text = head.get(start..start.checked_add(len)?.checked_sub(1)?)?;
        (kind == libc::PT_INTERP).then(|| OsStr::from_bytes(text).into())
    })
}
