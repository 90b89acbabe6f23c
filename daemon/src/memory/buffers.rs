//! Ordinary memory for blocks on their way to the disk or from it, used again and again.

use super::BLOCK_BYTES;
use crate::{
    error::{Error, Result},
    limits::budget::Reservation,
    system::sync::Condvar,
};
use memmap2::MmapMut;
use parking_lot::Mutex;

/// Ordinary memory of one block, page-aligned, that goes back to its pool when dropped.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// None only while it is dropped.
    memory: Option<Pooled>,
    pool: &'a BufferPool,
}

/// Buffers for blocks on their way to the disk or from it, used again and again.
#[derive(Debug)]
pub struct BufferPool {
    state: Mutex<Buffers>,
    returned: Condvar,
}

#[derive(Debug)]
struct Buffers {
    waiting: Vec<Pooled>,
    made: usize,
}

/// Memory of no file: all that can be wrong is that there is none.
fn no_memory(error: std::io::Error) -> Error {
    let errno = rustix::io::Errno::from_io_error(&error);
    Error::memory("allocating a buffer", errno.unwrap_or(rustix::io::Errno::NOMEM))
}

type Pooled = (Option<MmapMut>, Reservation);

/// Blocks on their way at a time; more would not make an SSD faster.
const BUFFERS_MAX: usize = 4;

impl BufferPool {
    /// A pool with one buffer, so that what frees memory never waits for memory. Needs a reservation of
    /// [`BLOCK_BYTES`].
    pub fn new(reservation: Reservation) -> Self {
        let buffers = Buffers {
            waiting: vec![(None, reservation)],
            made: 1,
        };
        Self {
            state: Mutex::new(buffers),
            returned: Condvar::new(),
        }
    }

    /// A buffer: one that waits, else a new one if `reserve` grants it, else the next that comes back.
    ///
    /// # Errors
    /// If the system has no memory left.
    pub fn take(&self, reserve: impl Fn(u64) -> Result<Reservation>) -> Result<Buffer<'_>> {
        let mut state = self.state.lock();
        let (map, reservation) = loop {
            if let Some(waiting) = state.waiting.pop() {
                break waiting;
            }
            if state.made < BUFFERS_MAX
                && let Ok(reservation) = reserve(BLOCK_BYTES)
            {
                state.made += 1;
                break (None, reservation);
            }
            self.returned.wait(&mut state);
        };
        drop(state);
        // From here on dropping it returns it, whatever fails.
        let mut buffer = Buffer {
            memory: Some((map, reservation)),
            pool: self,
        };
        if let Some((map @ None, _)) = &mut buffer.memory {
            let fresh = MmapMut::map_anon(BLOCK_BYTES as usize);
            *map = Some(fresh.map_err(no_memory)?);
        }
        Ok(buffer)
    }

    /// Lets go of memory that waits: nothing was written or read for a while.
    pub fn trim(&self) {
        let mut state = self.state.lock();
        let keep = state.waiting.len().min(1);
        state.made -= state.waiting.len() - keep;
        state.waiting.truncate(keep);
        state.waiting.iter_mut().for_each(|(map, _)| *map = None);
    }
}

impl Buffer<'_> {
    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        let map = self.memory.as_mut().and_then(|(map, _)| map.as_mut());
        map.map_or(&mut [], |map| map)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().waiting.extend(self.memory.take());
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::budget::Budget;

    #[test]
    fn without_memory_for_another_buffer_the_first_is_waited_for() {
        let budget = Budget::new(2 * BLOCK_BYTES, "ram-full");
        let reserve = |bytes| budget.reserve(bytes);
        let pool = BufferPool::new(reserve(BLOCK_BYTES).unwrap());
        let first = pool.take(reserve).unwrap();
        let mut second = pool.take(reserve).unwrap();
        second.bytes().fill(1);
        std::thread::scope(|scope| {
            let third = scope.spawn(|| pool.take(reserve).unwrap().bytes().len());
            drop(second);
            assert_eq!(third.join().unwrap() as u64, BLOCK_BYTES);
        });
        drop(first);
        assert_eq!(budget.used(), 2 * BLOCK_BYTES);
        pool.trim();
        assert_eq!(budget.used(), BLOCK_BYTES, "one is always to be had");
        assert_eq!(pool.take(reserve).unwrap().bytes()[0], 0, "its memory was let go");
    }
}
