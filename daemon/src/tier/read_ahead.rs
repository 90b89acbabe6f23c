//! What one job will read next, brought from SSD in exactly that order, before it asks.
//!
//! A job says in *loads* what it will want: pieces of segments that fit one slot of a [`Ring`]. Loads are read in the order
//! they were declared in, a few at a time, each into the slot of its number, and never more of them than there are slots: a
//! slot is read into again only when the job has said that it is done with it. So what is read ahead takes the memory of the
//! ring and no more, and displaces nothing. With the job's session it ends.

use crate::{
    error::{Error, Kind, Result},
    limits::budget::Reservation,
    memory::{BLOCK_BYTES, Ring, SLOT_BYTES},
    segment::{SegmentId, chunks},
    system::sync::Condvar,
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    thread,
};

/// Loads of one job that are read at a time: an SSD is as fast with fewer requests of a megabyte.
const READERS_MAX: usize = 4;

/// No segment's values are longer: numbers beyond are mistakes.
const VALUES_BYTES_MAX: u64 = 1 << 40;

/// A range of a segment's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The segment.
    pub segment: SegmentId,
    /// Bytes of its values.
    pub range: Range<u64>,
}

/// Pieces that fit one slot, where each has the whole chunks that it touches, one after the other.
#[derive(Debug, Clone)]
pub struct Load(Vec<Piece>);

/// One job's read-ahead.
pub struct ReadAhead {
    ring: Ring,
    state: Mutex<State>,
    change: Condvar,
    _share: Reservation,
}

#[derive(Default)]
struct State {
    /// Those that the job is not done with, in order.
    loads: VecDeque<Progress>,
    /// Number of the first of them: as many were declared before it.
    first: u64,
    /// How many of them are begun.
    begun: usize,
    readers: usize,
    ended: bool,
}

enum Progress {
    Waiting(Load),
    Reading,
    /// The bytes that were read from SSD for it; None if they are not to be had.
    Done(Option<u64>),
}

impl Load {
    /// # Errors
    /// `bad-request` if they do not fit a slot.
    pub fn new(pieces: Vec<Piece>) -> Result<Self> {
        let bad = |what: &str| Error::new(Kind::Invalid, "bad-request", what);
        let mut len = 0;
        for Piece { range, .. } in &pieces {
            if range.start >= range.end || range.end > VALUES_BYTES_MAX {
                return Err(bad("a piece to be read is no range of values"));
            }
            let whole = chunks(range);
            len += whole.end - whole.start;
        }
        if len > SLOT_BYTES {
            return Err(bad("pieces to be read do not fit a slot"));
        }
        Ok(Self(pieces))
    }

    /// Has each piece read, by parts within one block, to its place.
    fn read(&self, slot: &mut [u8], read: &impl Fn(Piece, &mut [u8]) -> Result<u64>) -> Result<u64> {
        let (mut place, mut from_ssd) = (0, 0);
        for piece in &self.0 {
            let whole = chunks(&piece.range);
            let mut at = piece.range.start;
            while at < piece.range.end {
                let end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
                let part = Piece {
                    segment: piece.segment,
                    range: at..end.min(piece.range.end),
                };
                let skipped = chunks(&part.range).start - whole.start;
                from_ssd += read(part, &mut slot[(place + skipped) as usize..])?;
                at = end;
            }
            place += whole.end - whole.start;
        }
        Ok(from_ssd)
    }
}

/// A load that is being read, which is told of however that ends: somebody may wait for it.
struct Ending<'a> {
    ahead: &'a ReadAhead,
    number: u64,
    done: Option<u64>,
    is_reader: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.is_reader && thread::panicking() {
            self.ahead.state.lock().readers -= 1;
        }
        self.ahead.finish(self.number, self.done);
    }
}

impl AsFd for ReadAhead {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl ReadAhead {
    /// Of a job that has declared nothing; `share` is held as long as the ring.
    pub fn new(ring: Ring, share: Reservation) -> Self {
        Self {
            ring,
            state: Mutex::default(),
            change: Condvar::new(),
            _share: share,
        }
    }

    /// Where loads are read to: load `n` to slot `n`.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether loads to be declared have the numbers that the job thinks they have. If not, it would find others in its slots.
    ///
    /// # Errors
    /// `bad-request` if they have not.
    pub fn check_next(&self, number: u64, loads: &[Load]) -> Result<()> {
        let state = self.state.lock();
        if loads.is_empty() || number == state.first + state.loads.len() as u64 {
            return Ok(());
        }
        Err(Error::new(
            Kind::Invalid,
            "bad-request",
            "loads are declared out of turn",
        ))
    }

    /// The job is done with the loads before `done`, or with all of them, and will want these next.
    ///
    /// # Errors
    /// `bad-request` if `done` was not declared, or these are more than there are slots for.
    pub fn declare(&self, done: Option<u64>, loads: Vec<Load>) -> Result<()> {
        let bad = |what: &str| Error::new(Kind::Invalid, "bad-request", what);
        let mut state = self.state.lock();
        let end = state.first + state.loads.len() as u64;
        let done = done.unwrap_or(end).max(state.first);
        if done > end {
            return Err(bad("no load of this number was declared"));
        }
        let released = (done - state.first) as usize;
        if (state.loads.len() - released + loads.len()) as u64 > self.ring.slots() {
            return Err(bad("more is declared than there are slots for"));
        }
        state.loads.drain(..released);
        state.first = done;
        state.begun = state.begun.saturating_sub(released);
        state.loads.extend(loads.into_iter().map(Progress::Waiting));
        Ok(())
    }

    /// Whether another reader is of use, which is then to [`ReadAhead::run`].
    pub fn needs_reader(&self) -> bool {
        let mut state = self.state.lock();
        let waiting = state.loads.len() - state.begun;
        let needed = !state.ended && waiting > 0 && state.readers < READERS_MAX;
        state.readers += usize::from(needed);
        needed
    }

    /// Reads loads in order, by `read`, which is given room for all that is behind its place, until none waits. Blocking.
    pub fn run(&self, read: impl Fn(Piece, &mut [u8]) -> Result<u64>) {
        while self.read_next(&read, true) {}
    }

    /// Reads the next load, if one waits; whether one did.
    fn read_next(&self, read: &impl Fn(Piece, &mut [u8]) -> Result<u64>, is_reader: bool) -> bool {
        let Some((number, load)) = self.begin(is_reader) else {
            return false;
        };
        let mut ending = Ending {
            ahead: self,
            number,
            done: None,
            is_reader,
        };
        let mut slot = self.ring.slot(number);
        // A job that changed its mind may have been promised the slot for another load since. Not from here on: whoever
        // reads that waits for the slot.
        if self.is_wanted(number) {
            ending.done = load.read(&mut slot, read).ok();
        }
        drop(slot);
        true
    }

    fn begin(&self, is_reader: bool) -> Option<(u64, Load)> {
        let mut state = self.state.lock();
        let place = state.begun;
        if !state.ended
            && let Some(progress) = state.loads.get_mut(place)
            && let Progress::Waiting(load) = std::mem::replace(progress, Progress::Reading)
        {
            state.begun += 1;
            return Some((state.first + place as u64, load));
        }
        // In the same step: what is declared after it needs another reader.
        state.readers -= usize::from(is_reader);
        None
    }

    fn is_wanted(&self, number: u64) -> bool {
        let state = self.state.lock();
        !state.ended && number >= state.first
    }

    fn finish(&self, number: u64, done: Option<u64>) {
        let mut state = self.state.lock();
        let place = number.checked_sub(state.first);
        if let Some(progress) = place.and_then(|place| state.loads.get_mut(place as usize)) {
            *progress = Progress::Done(done);
        }
        drop(state);
        self.change.notify_all();
    }

    /// Waits for a load; the bytes that were read from SSD for it, or None if they are not to be had. What nobody reads yet it
    /// reads itself, as `run` does: readers may be waiting for the threads of those who wait. Blocking.
    ///
    /// # Errors
    /// `bad-request` if the job never declared it, or is done with it.
    pub fn wait(&self, number: u64, read: impl Fn(Piece, &mut [u8]) -> Result<u64>) -> Result<Option<u64>> {
        let mut state = self.state.lock();
        loop {
            let place = number.checked_sub(state.first);
            match place.and_then(|place| state.loads.get(place as usize)) {
                Some(Progress::Done(done)) => return Ok(*done),
                Some(Progress::Waiting(_)) if !state.ended => {
                    drop(state);
                    self.read_next(&read, false);
                    state = self.state.lock();
                }
                Some(Progress::Reading) if !state.ended => self.change.wait(&mut state),
                _ => {
                    return Err(Error::new(
                        Kind::Invalid,
                        "bad-request",
                        "no such load is declared",
                    ));
                }
            }
        }
    }

    /// Ends with the job: what is not begun is not read.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.change.notify_all();
    }
}
