//! What is read from SSD: declared in the order in which it will be wanted, read ahead by the daemon into a ring of slots,
//! and copied from there.

use crate::connection::data_socket::DataSocket;
use crate::error::{Error, Result};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::raw::SharedMemory;
use parking_lot::Mutex;
use prebake_proto::v1::{Load, Piece, ReadAhead, ReadDone, data_request, data_response};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Whole chunks of so many bytes are read; the daemon's digests are of these.
const CHUNK_BYTES: usize = 16 << 10;

/// Longest ring that makes sense: a daemon's is some tens of megabytes.
const RING_BYTES_MAX: usize = 1 << 30;

/// The stream of one session. Taken after items and before blocks.
pub(crate) struct SsdReader(Mutex<State>);

#[derive(Default)]
struct State {
    block_bytes: usize,
    ring: Option<Ring>,
    /// Not declared yet, in order, and their bytes.
    coming: VecDeque<Location>,
    coming_bytes: usize,
    /// Declared and not copied yet, in order.
    declared: VecDeque<Declared>,
    /// Loads declared in this session: the number of the next one.
    next: u64,
    /// The first of them that may be copied from later: those before are released.
    first: u64,
    /// Whether `first` is in its slot.
    taken: bool,
    /// What is declared now is to be forgotten, which the daemon does not know yet.
    anew: bool,
    /// How often that was so.
    breaks: u64,
    from_ssd: u64,
    /// Whether something was read of which nothing was on SSD any more.
    resident: bool,
}

struct Ring {
    memory: SharedMemory,
    slots: u64,
    slot_bytes: usize,
}

/// A part of a segment in a load.
struct Declared {
    part: Location,
    load: u64,
    /// Where in the slot it begins.
    at: usize,
}

/// Where a range that is wanted is to be had.
enum Found {
    /// Its beginning, from the stream.
    Here,
    /// From this byte on from the stream.
    From(usize),
    Nowhere,
}

impl SsdReader {
    pub(crate) fn new(block_bytes: usize) -> SsdReader {
        SsdReader(Mutex::new(State {
            block_bytes,
            ..State::default()
        }))
    }

    /// How many bytes more can be declared to advantage.
    pub(crate) fn room(&self) -> usize {
        let state = self.0.lock();
        let loads = state.ring.as_ref().map_or(1, |ring| ring.slots);
        let slot_bytes = state.ring.as_ref().map_or(CHUNK_BYTES, |ring| ring.slot_bytes);
        // As much again as is declared: what is released during a batch has a successor at once.
        let free = (2 * loads).saturating_sub(state.next - state.first) as usize;
        (free * slot_bytes).saturating_sub(state.coming_bytes)
    }

    /// Changes when what was expected was forgotten.
    pub(crate) fn breaks(&self) -> u64 {
        self.0.lock().breaks
    }

    /// These will be wanted next, behind what was expected before.
    pub(crate) fn expect(&self, data: &Mutex<DataSocket>, locations: Vec<Location>) -> Result<()> {
        let mut state = self.0.lock();
        state.open(data)?;
        for location in locations {
            state.come(location);
        }
        let full = state
            .ring
            .as_ref()
            .is_some_and(|ring| state.coming_bytes >= ring.slot_bytes);
        if full && state.free(state.first) > 0 {
            state.exchange(data, None, false)?;
        }
        Ok(())
    }

    /// What is expected is not wanted any more, as far as it was not declared yet.
    pub(crate) fn forget(&self) {
        let mut state = self.0.lock();
        state.coming.clear();
        state.coming_bytes = 0;
        state.breaks += 1;
    }

    /// Copies these, side by side: what `hold` copies is mapped, the rest is read. False if some are gone.
    pub(crate) fn copy(
        &self,
        data: &Mutex<DataSocket>,
        runs: &[Location],
        out: &mut [u8],
        hold: impl Fn(&Location, &mut [u8]) -> bool,
    ) -> Result<bool> {
        let mut state = self.0.lock();
        state.open(data)?;
        let mut filled = 0;
        for (place, run) in runs.iter().enumerate() {
            let mut rest = run.clone();
            // Whether it was asked for by itself.
            let mut asked = false;
            while !rest.bytes.is_empty() {
                let end = match state.find(&rest) {
                    Found::Here => match state.take(data, &rest, &mut out[filled..])? {
                        Some(copied) => {
                            filled += copied;
                            rest.bytes.start += copied;
                            continue;
                        }
                        None => return Ok(false),
                    },
                    Found::From(start) => start,
                    Found::Nowhere => rest.bytes.end,
                };
                let part = Location {
                    segment: rest.segment,
                    bytes: rest.bytes.start..end,
                };
                let length = part.bytes.len();
                if hold(&part, &mut out[filled..filled + length]) {
                    filled += length;
                    rest.bytes.start = end;
                    continue;
                }
                if state.coming.is_empty() || state.free(state.first) == 0 {
                    // Nothing is left of it to declare, or no slot comes free.
                    if asked {
                        return Err(Error::protocol("what was declared is not there"));
                    }
                    asked = true;
                    let following = runs[place + 1..].iter().cloned();
                    state.begin_anew(std::iter::once(rest.clone()).chain(following));
                }
                state.exchange(data, None, true)?;
            }
        }
        Ok(true)
    }

    /// Bytes that the daemon read from SSD since last asked, and whether some that were taken to be there are in RAM.
    pub(crate) fn take_from_ssd(&self) -> (u64, bool) {
        let mut state = self.0.lock();
        (
            std::mem::take(&mut state.from_ssd),
            std::mem::take(&mut state.resident),
        )
    }
}

impl State {
    /// Maps the ring, if it is not.
    fn open(&mut self, data: &Mutex<DataSocket>) -> Result<()> {
        if self.ring.is_some() {
            return Ok(());
        }
        let request = ReadAhead {
            ring: true,
            ..ReadAhead::default()
        };
        let (answer, fds) = ask(data, request)?;
        let slot_bytes = usize::try_from(answer.slot_bytes).unwrap_or(0);
        let bytes = usize::try_from(answer.slots)
            .ok()
            .and_then(|n| n.checked_mul(slot_bytes));
        let (Some(bytes), [fd]) = (bytes, fds.as_slice()) else {
            return Err(Error::protocol("not an answer to ReadAhead"));
        };
        if slot_bytes < 2 * CHUNK_BYTES
            || slot_bytes % CHUNK_BYTES != 0
            || bytes > RING_BYTES_MAX
            || answer.slots == 0
        {
            return Err(Error::protocol("a ring of a size out of range"));
        }
        self.ring = Some(Ring {
            memory: SharedMemory::ring(fd, bytes)?,
            slots: answer.slots,
            slot_bytes,
        });
        Ok(())
    }

    fn come(&mut self, location: Location) {
        if location.bytes.is_empty() {
            return;
        }
        self.coming_bytes += location.bytes.len();
        match self.coming.back_mut() {
            Some(last) if last.touches(&location) => last.bytes.end = location.bytes.end,
            _ => self.coming.push_back(location),
        }
    }

    /// Slots that are free once all loads before `first` are released.
    fn free(&self, first: u64) -> u64 {
        let slots = self.ring.as_ref().map_or(0, |ring| ring.slots);
        slots.saturating_sub(self.next - first)
    }

    fn begin_anew(&mut self, wanted: impl Iterator<Item = Location>) {
        self.forget_all();
        wanted.for_each(|location| self.come(location));
    }

    fn forget_all(&mut self) {
        self.declared.clear();
        self.coming.clear();
        self.coming_bytes = 0;
        (self.first, self.taken, self.anew) = (self.next, false, true);
        self.breaks += 1;
    }

    /// Looks for the beginning of a range among what is declared, and drops what was declared before that.
    fn find(&mut self, wanted: &Location) -> Found {
        let Range { start, end } = wanted.bytes;
        let within = |declared: &Declared| {
            let part = &declared.part;
            part.segment == wanted.segment && part.bytes.start < end && start < part.bytes.end
        };
        let Some(place) = self.declared.iter().position(within) else {
            return Found::Nowhere;
        };
        let from = self.declared[place].part.bytes.start;
        if from > start {
            return Found::From(from);
        }
        self.declared.drain(..place);
        Found::Here
    }

    /// Copies the beginning of a range that was found; how many bytes, or None if they are gone.
    fn take(&mut self, data: &Mutex<DataSocket>, wanted: &Location, out: &mut [u8]) -> Result<Option<usize>> {
        let Some(load) = self.declared.front().map(|declared| declared.load) else {
            return Ok(None);
        };
        if (!self.taken || self.first != load) && !self.exchange(data, Some(load), false)? {
            self.forget_all();
            return Ok(None);
        }
        let (Some(declared), Some(ring)) = (self.declared.front(), &self.ring) else {
            return Ok(None);
        };
        let part = &declared.part.bytes;
        let end = part.end.min(wanted.bytes.end);
        let length = end - wanted.bytes.start;
        let slot = (load % ring.slots) as usize * ring.slot_bytes;
        let at = slot + declared.at + (wanted.bytes.start - part.start);
        if !ring.memory.read(at, &mut out[..length]) {
            return Err(Error::protocol("a load outside its ring"));
        }
        if end == part.end {
            self.declared.pop_front();
        }
        Ok(Some(length))
    }

    /// Declares what is coming, as far as there are free slots for it and it fills them (or in any case, to `flush`), and
    /// waits for a load. False if that is gone.
    fn exchange(&mut self, data: &Mutex<DataSocket>, take: Option<u64>, flush: bool) -> Result<bool> {
        let (first, number) = (take.unwrap_or(self.first), self.next);
        let mut loads = Vec::new();
        let slot_bytes = self.ring.as_ref().map_or(0, |ring| ring.slot_bytes);
        while self.free(first) > 0 && (self.coming_bytes >= slot_bytes || flush && !self.coming.is_empty()) {
            loads.push(self.pack(slot_bytes));
            self.next += 1;
        }
        let request = ReadAhead {
            loads,
            anew: self.anew,
            take,
            ring: false,
            number,
        };
        let (answer, _) = ask(data, request).inspect_err(|_| {
            // What was refused was not declared. If it was, the daemon refuses the next for its number.
            self.next = number;
            self.forget_all();
        })?;
        self.anew = false;
        if take.is_some() {
            (self.first, self.taken) = (first, true);
            self.from_ssd += answer.bytes_ssd;
            self.resident |= answer.there && answer.bytes_ssd == 0;
        }
        Ok(take.is_none() || answer.there)
    }

    /// The next load: as the daemon, with whole chunks of each piece, one after the other.
    fn pack(&mut self, slot_bytes: usize) -> Load {
        let mut load = Load::default();
        let mut at = 0;
        while at < slot_bytes
            && let Some(mut location) = self.coming.pop_front()
        {
            let Range { start, end } = location.bytes;
            let whole = start / CHUNK_BYTES * CHUNK_BYTES;
            let mut most = whole + (slot_bytes - at);
            // No load of a long run lies in two blocks: that would be two reads.
            let block_end = (start / self.block_bytes + 1) * self.block_bytes;
            let is_cut = end - whole > slot_bytes && block_end <= most;
            if is_cut {
                most = block_end;
            }
            let part = Location {
                segment: location.segment,
                bytes: start..end.min(most),
            };
            load.pieces.push(Piece {
                segment: part.segment,
                start: start as u64,
                end: part.bytes.end as u64,
            });
            self.coming_bytes -= part.bytes.len();
            let place = at + (start - whole);
            at += part.bytes.end.next_multiple_of(CHUNK_BYTES) - whole;
            if part.bytes.end < end {
                location.bytes.start = part.bytes.end;
                self.coming.push_front(location);
            }
            self.declared.push_back(Declared {
                part,
                load: self.next,
                at: place,
            });
            if is_cut {
                break;
            }
        }
        load
    }
}

fn ask(data: &Mutex<DataSocket>, request: ReadAhead) -> Result<(ReadDone, Vec<OwnedFd>)> {
    match data.lock().exchange(data_request::Kind::ReadAhead(request))? {
        (data_response::Kind::ReadDone(done), fds) => Ok((done, fds)),
        _ => Err(Error::protocol("not an answer to ReadAhead")),
    }
}

// An element of a segment, and so every piece, ends within it.
const _: () = assert!(SEGMENT_BYTES_MAX.is_multiple_of(CHUNK_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    fn location(bytes: Range<usize>) -> Location {
        Location { segment: 1, bytes }
    }

    #[test]
    fn a_long_run_is_cut_where_blocks_end_and_short_ones_fill_their_load() {
        const SLOT: usize = 4 * CHUNK_BYTES;
        const BLOCK: usize = 2 * SLOT;
        // Of each load the pieces' beginnings and ends.
        let packed = |runs: &[(usize, usize)]| {
            let mut state = SsdReader::new(BLOCK).0.into_inner();
            runs.iter()
                .for_each(|(start, end)| state.come(location(*start..*end)));
            let mut loads = Vec::new();
            while !state.coming.is_empty() {
                let pieces = state.pack(SLOT).pieces.into_iter();
                let pieces = pieces.map(|piece| (piece.start as usize, piece.end as usize));
                loads.push(pieces.collect::<Vec<_>>());
            }
            loads
        };
        let begin = SLOT / 2;
        let cut = [begin, begin + SLOT, BLOCK, BLOCK + SLOT, 2 * BLOCK, 2 * BLOCK + 5];
        let cut: Vec<_> = cut.windows(2).map(|ends| vec![(ends[0], ends[1])]).collect();
        assert_eq!(packed(&[(begin, 2 * BLOCK + 5)]), cut);
        let short = [(BLOCK - 10, BLOCK + 10), (7 * SLOT, 7 * SLOT + 20)];
        assert_eq!(packed(&short), [short]);
    }

    #[test]
    fn what_was_declared_in_an_order_that_was_left_is_found_no_more() {
        let mut state = State::default();
        let declared = |part: Range<usize>, load| Declared {
            part: location(part),
            load,
            at: 0,
        };
        state.declared.extend([declared(0..10, 0), declared(20..30, 1)]);
        state.next = 2;
        assert!(matches!(state.find(&location(0..10)), Found::Here));
        state.begin_anew(std::iter::once(location(40..50)));
        // Its slots are another's from now on.
        for left in [0..10, 20..30, 15..30] {
            assert!(matches!(state.find(&location(left)), Found::Nowhere));
        }
        assert_eq!((state.first, state.coming_bytes), (2, 10));
    }
}
