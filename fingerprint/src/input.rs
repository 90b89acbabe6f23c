//! Input fingerprints: what a graph runs on.
//!
//! Names are bytes, since file names are. A path is relative to the root of its data set, so that moving the root changes
//! nothing.

use crate::{Digest, digest::Context};
use std::io::{self, Read};

/// Bytes read at a time: enough for BLAKE3 to hash 16 chunks of 1 KiB side by side, several times over, and few enough for
/// the stack. A buffer of an allocator's own making costs as much as hashing a small file.
const READ_BYTES: usize = 64 << 10;

/// Digest of everything `reader` yields.
///
/// # Errors
/// What reading says; interrupted reads are tried again.
pub fn content(mut reader: impl Read) -> io::Result<Digest> {
    let mut hasher = Context::Content.hasher();
    let mut buffer = [0; READ_BYTES];
    loop {
        match fill(&mut reader, &mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            read => hasher.update(&buffer[..read]),
        };
    }
}

/// Reads until `buffer` is full or the reader at its end, so that short reads do not hash slowly.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Input fingerprint of an item: its content, and its relative path unless that is ignored.
#[must_use]
pub fn item(name: Option<&[u8]>, content: &Digest) -> Digest {
    let mut hasher = Context::Item.hasher();
    hasher.update(&[u8::from(name.is_some())]).update(&content.0);
    // Last, so that it needs no length.
    hasher.update(name.unwrap_or_default()).finalize().into()
}

/// Root over the files of a directory: relative paths and content digests, in any order.
#[must_use]
pub fn directory<N: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, Digest)>) -> Digest {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_unstable_by(|(a, x), (b, y)| a.as_ref().cmp(b.as_ref()).then(x.cmp(y)));
    let mut hasher = Context::Directory.hasher();
    for (name, content) in files {
        let name = name.as_ref();
        hasher
            .update(&(name.len() as u64).to_le_bytes())
            .update(name)
            .update(&content.0);
    }
    hasher.finalize().into()
}

/// Root over a run of items, given by their input fingerprints, in order.
#[must_use]
pub fn partition(items: impl IntoIterator<Item = Digest>) -> Digest {
    let mut hasher = Context::Partition.hasher();
    for item in items {
        hasher.update(&item.0);
    }
    hasher.finalize().into()
}

/// Input fingerprint of a call: a digest of its arguments and the root of the files it reads.
#[must_use]
pub fn arguments(arguments: &Digest, files: &Digest) -> Digest {
    Context::Arguments
        .hasher()
        .update(&arguments.0)
        .update(&files.0)
        .finalize()
        .into()
}

/// What item `i` of a data set is where its number says it: the data set itself is part of the graph.
#[must_use]
pub fn place(i: u64) -> Digest {
    Context::Place.digest(&i.to_le_bytes())
}
