//! Memory for copies of elements.

use parking_lot::Mutex;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::slice;

/// Where copies begin: it suits every NumPy type and vector unit.
const ALIGNMENT: usize = 64;

/// Large buffers that were dropped, to be used again: a loop that lets go of each batch would else take every page of every
/// one from the system anew, which costs ten times the copying. (Huge pages make that cheap on some machines and dearer
/// on virtual ones, whose host takes free huge pages back: 3 ms a MiB was seen.)
static SPARE: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());

/// Spare buffers kept: a loop holds one batch while it asks for the next, so that one is spare by turns; one more for a
/// second loop or size.
const SPARE_MAX: usize = 2;

/// The allocator keeps smaller ones itself (M_MMAP_THRESHOLD of glibc).
const SPARE_BYTES_MIN: usize = 128 << 10;

/// Larger ones are not worth their memory while they wait.
const SPARE_BYTES_MAX: usize = 32 << 20;

/// Bytes that belong to the holder, aligned. What is in a new one is whatever was in its memory before, if anything.
pub(crate) struct Buffer {
    /// Words, since a vector of them is made of zero pages without touching them.
    words: Vec<u64>,
    /// Bytes before the first that is aligned.
    start: usize,
    length: usize,
}

const WORD_BYTES: usize = size_of::<u64>();

impl Buffer {
    pub(crate) fn new(length: usize) -> Buffer {
        let count = (length + ALIGNMENT).div_ceil(WORD_BYTES);
        let fits = |spare: &Vec<u64>| (count..=count + count / 4).contains(&spare.len());
        // In a forked child another thread of the parent may hold the lock for ever.
        let spare = SPARE.try_lock().and_then(|mut spares| {
            // The one used last is still in the processor's cache.
            let place = spares.iter().rposition(fits)?;
            Some(spares.swap_remove(place))
        });
        let words = spare.unwrap_or_else(|| vec![0; count]);
        let start = words.as_ptr().cast::<u8>().align_offset(ALIGNMENT);
        Buffer { words, start, length }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised, and at least `ALIGNMENT` longer than this, of which `start` is less (new).
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast::<u8>().add(self.start), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let words = self.words.as_mut_ptr().cast::<u8>();
        // SAFETY: as above, and `self` is borrowed mutably; any bytes make a word.
        unsafe { slice::from_raw_parts_mut(words.add(self.start), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !(SPARE_BYTES_MIN..=SPARE_BYTES_MAX).contains(&(self.words.len() * WORD_BYTES)) {
            return;
        }
        if let Some(mut spares) = SPARE.try_lock() {
            // The oldest goes: what is asked for next is likelier to be of the size of the newest.
            if spares.len() == SPARE_MAX {
                spares.remove(0);
            }
            spares.push(mem::take(&mut self.words));
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
