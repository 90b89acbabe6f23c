//! Memory for copies of elements.

use parking_lot::Mutex;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::slice;

/// Where copies begin: it suits every NumPy type and vector unit.
const ALIGNMENT: usize = 64;

/// Large buffers that were dropped, to be used again: a loop that lets go of each batch would else take every page of every
/// one from the system anew, which costs ten times the copying. (Huge pages make that cheap on some machines and dearer
/// on virtual ones, whose host takes free huge pages back.)
static SPARE: Mutex<Vec<Vec<Line>>> = Mutex::new(Vec::new());

/// Spare buffers kept: a loop holds one batch while it asks for the next, so that one is spare by turns; one more for a
/// second loop or size.
const SPARE_MAX: usize = 2;

/// The allocator keeps smaller ones itself (M_MMAP_THRESHOLD of glibc).
const SPARE_BYTES_MIN: usize = 128 << 10;

/// Larger ones are not worth their memory while they wait.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// Bytes that belong to the holder, aligned. What is in a new one is whatever was in its memory before, if anything.
pub(crate) struct Buffer {
    lines: Vec<Line>,
    length: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "it is read as bytes")] [u8; ALIGNMENT]);

impl Buffer {
    pub(crate) fn new(length: usize) -> Buffer {
        let count = length.div_ceil(ALIGNMENT);
        let fits = |spare: &Vec<Line>| (count..=2 * count).contains(&spare.len());
        // In a forked child another thread of the parent may hold the lock for ever.
        let spare = SPARE.try_lock().and_then(|mut spares| {
            let place = spares.iter().position(fits)?;
            Some(spares.swap_remove(place))
        });
        let lines = spare.unwrap_or_else(|| vec![Line([0; ALIGNMENT]); count]);
        Buffer { lines, length }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: initialised and at least so long (new); a `Line` is bytes without padding.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably; any bytes make a `Line`.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !(SPARE_BYTES_MIN..=SPARE_BYTES_MAX).contains(&(self.lines.len() * ALIGNMENT)) {
            return;
        }
        if let Some(mut spares) = SPARE.try_lock() {
            // The oldest goes: what is asked for next is likelier to be of the size of the newest.
            if spares.len() == SPARE_MAX {
                spares.remove(0);
            }
            spares.push(mem::take(&mut self.lines));
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
        assert_ne!(Buffer::new(2 * length + ALIGNMENT).as_ptr(), one);
        drop(third);
        assert_ne!(
            Buffer::new(length / 3).as_ptr(),
            one,
            "one that is far too large waits on"
        );
    }
}
