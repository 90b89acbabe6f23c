//! Elements copied side by side, by as many threads as have the copy.

use super::buffer::Buffer;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// Bytes that one thread copies at a time: 30 us or so, which is how long who wants the whole may wait for another thread.
const PART_BYTES: usize = if cfg!(miri) { 64 } else { 256 << 10 };

/// A copy in the making. Each part of it is copied by the thread that claimed it.
pub(crate) struct Gather<S> {
    sources: Vec<S>,
    parts: Vec<Part>,
    /// The first that nobody has claimed.
    next: AtomicUsize,
    /// Not looked at before all of it is copied.
    buffer: Buffer,
    /// Of the buffer's bytes, which are written to through this alone.
    start: NonNull<u8>,
    bytes: usize,
    /// Who made it, and waits for it.
    maker: Thread,
}

/// So many bytes of a source, from `from` on, become those of the copy from `to` on.
struct Part {
    source: usize,
    from: usize,
    to: usize,
    length: usize,
}

// SAFETY: `start` is of the buffer, which goes where the value goes. Several threads write through it at once, but never to the
// same bytes: parts do not overlap, and the counter gives each to one thread.
unsafe impl<S: Send> Send for Gather<S> {}
// SAFETY: as above; nothing else in it changes. Sources are dropped by whoever lets go of it last, hence `Send`.
unsafe impl<S: Send + Sync> Sync for Gather<S> {}

impl<S: AsRef<[u8]>> Gather<S> {
    /// Of these, one after the other.
    pub(crate) fn new(sources: Vec<S>) -> Self {
        let (mut parts, mut to) = (Vec::with_capacity(sources.len()), 0);
        for (source, held) in sources.iter().enumerate() {
            let bytes = held.as_ref().len();
            for from in (0..bytes).step_by(PART_BYTES) {
                let length = PART_BYTES.min(bytes - from);
                parts.push(Part {
                    source,
                    from,
                    to,
                    length,
                });
                to += length;
            }
        }
        let mut buffer = Buffer::new(to);
        Gather {
            sources,
            parts,
            next: AtomicUsize::new(0),
            start: NonNull::from(&mut *buffer).cast(),
            bytes: to,
            buffer,
            maker: thread::current(),
        }
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Who made it.
    pub(crate) fn maker(&self) -> Thread {
        self.maker.clone()
    }

    /// Copies parts until all are claimed, or `go_on` says no; whether there were any.
    pub(crate) fn copy(&self, go_on: impl Fn() -> bool) -> bool {
        let mut copied = false;
        while go_on()
            && let Some(part) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let from = &self.sources[part.source].as_ref()[part.from..][..part.length];
            // SAFETY: the parts together are as long as the buffer, and this one is ours alone (claimed above). Nobody reads the
            // buffer before all who copy have let go of it (into_buffer), and the cache's memory is none of it.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(part.to), part.length) };
            copied = true;
        }
        copied
    }

    /// The copy, whole. Another thread that still has it gets it back: that is at a part.
    pub(crate) fn into_buffer(this: Arc<Self>) -> Result<Buffer, Arc<Self>> {
        this.copy(|| true);
        // Who claimed a part had this until it was copied, and to be alone with it is to see what they wrote.
        Arc::try_unwrap(this).map(|gather| gather.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Bytes that differ from their neighbours'.
    fn there(range: Range<usize>) -> Vec<u8> {
        range.map(|i| (i % 251) as u8).collect()
    }

    fn all(ranges: &[Range<usize>]) -> Vec<Vec<u8>> {
        ranges.iter().cloned().map(there).collect()
    }

    #[test]
    fn however_many_copy_it_is_what_its_sources_are_in_turn() {
        let ranges = [5..8, 7..PART_BYTES + 8, 0..2 * PART_BYTES, 9..10];
        let whole = all(&ranges).concat();
        for others in 0..4 {
            let gather = Arc::new(Gather::new(all(&ranges)));
            assert_eq!(gather.bytes(), whole.len());
            thread::scope(|scope| {
                for _ in 0..others {
                    let gather = Arc::clone(&gather);
                    scope.spawn(move || gather.copy(|| true));
                }
            });
            let buffer = Gather::into_buffer(gather).ok().unwrap();
            assert!(*buffer == *whole);
        }
    }

    #[test]
    fn it_is_whole_only_for_who_has_it_alone() {
        let gather = Arc::new(Gather::new(all(&[0..10, 5..20])));
        let other = Arc::clone(&gather);
        let gather = Gather::into_buffer(gather).err().unwrap();
        assert!(!other.copy(|| true), "all of it was claimed");
        drop(other);
        let buffer = Gather::into_buffer(gather).ok().unwrap();
        assert_eq!(*buffer, *[there(0..10), there(5..20)].concat());
    }

    #[test]
    fn of_nothing_it_is_empty() {
        let buffer = Gather::into_buffer(Arc::new(Gather::new(all(&[])))).ok().unwrap();
        assert!(buffer.is_empty());
    }
}
