//! Memory for copies of elements.

use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::slice;

/// Where copies begin: it suits every NumPy type and vector unit.
const ALIGNMENT: usize = 64;

/// Pages of this size are asked for where memory is used often. Small ones cost 50 to 100 ns each time that they are copied to
/// and each time that they are read on a virtual machine, a tenth of all that a shuffled batch takes.
const HUGE_PAGE: usize = 2 << 20;

/// So often memory is used before. Fresh huge pages cost next to nothing on some machines, and 3 ms a MiB on virtual ones whose
/// host takes free ones back: what the next so many uses gain. A job that reads a few batches never pays it.
const HUGE_AFTER: u32 = 64;

/// Large memory that was dropped, to be used again: a loop that lets go of each batch would else take every page of every
/// one from the system anew, which costs ten times the copying.
static SPARE: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// Spare buffers kept: a loop holds one batch while it asks for the next, so that one is spare by turns; one more for a
/// second loop or size.
const SPARE_MAX: usize = 2;

/// The allocator keeps smaller ones itself (M_MMAP_THRESHOLD of glibc).
const SPARE_BYTES_MIN: usize = 128 << 10;

/// Larger ones are not worth their memory while they wait.
const SPARE_BYTES_MAX: usize = 32 << 20;

/// Bytes that belong to the holder, aligned. What is in a new one is whatever was in its memory before, if anything.
pub(crate) struct Buffer {
    memory: Memory,
    length: usize,
}

#[derive(Default)]
struct Memory {
    /// Words, since a vector of them is made of zero pages without touching them.
    words: Vec<u64>,
    /// Bytes before the first that is aligned.
    start: usize,
    /// Bytes from there on.
    room: usize,
    uses: u32,
}

const WORD_BYTES: usize = size_of::<u64>();

impl Memory {
    fn aligned(room: usize, alignment: usize) -> Memory {
        let words = vec![0; (room + alignment).div_ceil(WORD_BYTES)];
        Memory {
            start: words.as_ptr().cast::<u8>().align_offset(alignment),
            words,
            room,
            uses: 0,
        }
    }

    /// As much in huge pages, as far as the system has any.
    fn huge(&self) -> Memory {
        let mut memory = Memory::aligned(self.room.next_multiple_of(HUGE_PAGE), HUGE_PAGE);
        memory.uses = HUGE_AFTER;
        // SAFETY: the words are longer than the room by the alignment, of which the start is less.
        let start = unsafe { memory.words.as_mut_ptr().cast::<u8>().add(memory.start) };
        // SAFETY: within the words, as above; it changes how they are mapped, and no byte.
        let _ = unsafe { madvise(start.cast(), memory.room, Advice::LinuxHugepage) };
        memory
    }
}

impl Buffer {
    pub(crate) fn new(length: usize) -> Buffer {
        let beyond = length / 4 + if length < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let fits = |spare: &Memory| (length..=length + beyond).contains(&spare.room);
        // In a forked child another thread of the parent may hold the lock for ever.
        let spare = SPARE.try_lock().and_then(|mut spares| {
            // The one used last is still in the processor's cache.
            let place = spares.iter().rposition(fits)?;
            Some(spares.remove(place))
        });
        let mut memory = match spare {
            Some(spare) if spare.uses == HUGE_AFTER && length >= HUGE_PAGE => spare.huge(),
            Some(spare) => spare,
            None => Memory::aligned(length, ALIGNMENT),
        };
        memory.uses = memory.uses.saturating_add(1);
        Buffer { memory, length }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.memory.words.as_ptr().cast::<u8>();
        // SAFETY: initialised, and there is room for so many behind the start (new).
        unsafe { slice::from_raw_parts(start.add(self.memory.start), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.memory.words.as_mut_ptr().cast::<u8>();
        // SAFETY: as above, and `self` is borrowed mutably; any bytes make a word.
        unsafe { slice::from_raw_parts_mut(start.add(self.memory.start), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !(SPARE_BYTES_MIN..=SPARE_BYTES_MAX).contains(&self.memory.room) {
            return;
        }
        if let Some(mut spares) = SPARE.try_lock() {
            // The oldest goes: what is asked for next is likelier to be of the size of the newest.
            if spares.len() == SPARE_MAX {
                spares.remove(0);
            }
            spares.push(mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_sizes_are_aligned_and_hold_what_is_written() {
        for length in [0, 1, 63, 64, 65, SPARE_BYTES_MIN - 1, SPARE_BYTES_MIN + 1] {
            for byte in [1, 2] {
                let mut buffer = Buffer::new(length);
                assert_eq!(buffer.len(), length);
                assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT));
                buffer.fill(byte);
                assert!(buffer.iter().all(|b| *b == byte));
            }
        }
    }

    #[test]
    fn memory_that_is_used_often_is_moved_to_huge_pages_once() {
        // Of a size that no other test has, since they share what is spare.
        let length = 5 * HUGE_PAGE / 2;
        let mut places = Vec::new();
        for _ in 0..=2 * HUGE_AFTER {
            let mut buffer = Buffer::new(length);
            (buffer[0], buffer[length - 1]) = (1, 2);
            places.push(buffer.as_ptr().addr());
        }
        places.dedup();
        assert_eq!(places.len(), 2);
        assert!(!places[0].is_multiple_of(HUGE_PAGE) && places[1].is_multiple_of(HUGE_PAGE));
    }

    #[test]
    fn a_buffer_is_used_again_only_after_it_was_dropped() {
        let length = 5 * SPARE_BYTES_MIN;
        let first = Buffer::new(length);
        let second = Buffer::new(length);
        let (one, two) = (first.as_ptr(), second.as_ptr());
        assert_ne!(one, two);
        drop(first);
        let third = Buffer::new(length - 1);
        assert_eq!(third.as_ptr(), one);
        assert_ne!(Buffer::new(2 * length).as_ptr(), one);
        drop(third);
        assert_ne!(
            Buffer::new(length / 2).as_ptr(),
            one,
            "one that is far too large waits on"
        );
    }
}
