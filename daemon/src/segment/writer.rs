//! A segment being filled: appended to by commits, written behind them, and closed.

use super::{
    BlockId, Blocks, Cost, ENTRY_BYTES, Held, Location, Segment, SegmentId, SegmentName, Space, Summary,
    Table, description, encoding::Encoding, format::encode, stored::Stored, table::ROW_BYTES,
};
use crate::{
    error::{Error, Kind, Result},
    memory::{BLOCK_BYTES, BlockWriter},
    vfs::{Vfs, VfsFile},
};
use parking_lot::Mutex;
use prebake_fingerprint::Digest;
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Full blocks beyond [`Blocks::unwritten_blocks`] that may wait for the disk before commits wait too: bounds what a slow
/// disk pins.
const BEHIND_BLOCKS_MAX: usize = 4;

/// Memory for rows is reserved so much at a time.
const ROWS_STEP_BYTES: u64 = 64 << 10;

/// The right to append to a segment.
pub struct OpenSegment {
    segment: Arc<Segment>,
    file: Arc<dyn VfsFile>,
    /// The block being filled, and its index.
    last: Option<(u32, BlockWriter)>,
    /// Full blocks on their way to the file.
    unwritten: Arc<Unwritten>,
    /// Monotonic time of the last append.
    pub touched: Duration,
}

/// Blocks that wait to be written. The lock of `encoding`, which the first of them decides, is held while they are.
#[derive(Default)]
struct Unwritten {
    queue: Mutex<Vec<(u32, BlockWriter)>>,
    encoding: Mutex<Option<Encoding>>,
}

/// What identifies one element that is appended.
pub struct Row<'a> {
    /// Input fingerprint.
    pub fingerprint: Digest,
    /// What a person calls its item.
    pub name: &'a str,
    /// How its bytes make up the value.
    pub layout: &'a str,
    /// Bytes.
    pub len: u64,
    /// What it cost.
    pub cost: Cost,
}

impl OpenSegment {
    /// Starts a segment that will be published at `path`.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create(
        id: SegmentId,
        name: SegmentName,
        collection: u64,
        path: PathBuf,
        vfs: Arc<dyn Vfs>,
        space: Space,
        now: Duration,
    ) -> Result<Self> {
        let rows = Held::All(Table::default());
        let segment = Segment::new(id, name, collection, path, vfs, space, rows, Summary::default());
        let file = segment.vfs.create(&segment.temporary_path())?;
        *segment.file.write() = Some(Arc::clone(&file));
        Ok(Self {
            segment: Arc::new(segment),
            file,
            last: None,
            unwritten: Arc::default(),
            touched: now,
        })
    }

    /// The segment, to read from.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Appends an element that `copy` appends to blocks piecewise: (offset in the element, bytes, block).
    /// On an error nothing was appended.
    ///
    /// # Errors
    /// `ram-full` if there is no memory for it; what `copy` returns.
    pub fn append(
        &mut self,
        row: &Row<'_>,
        ram: &dyn Blocks,
        mut copy: impl FnMut(u64, usize, &mut BlockWriter) -> Result<()>,
    ) -> Result<(u32, Location)> {
        self.make_room_for(row)?;
        let begin = self.last.as_ref().map(|(index, w)| (*index, w.filled_len()));
        let room = self.last.as_ref().map_or(0, |(_, w)| w.room() as u64);
        // All memory first: an element is never left half written for want of a block.
        let mut fresh = (0..row.len.saturating_sub(room).div_ceil(BLOCK_BYTES))
            .map(|_| ram.allocate())
            .collect::<Result<Vec<_>>>()?
            .into_iter();
        let mut full = Vec::new();
        let mut done = 0;
        let result = loop {
            if done == row.len {
                break Ok(());
            }
            if self.last.as_ref().is_none_or(|(_, w)| w.room() == 0) {
                let index = self.last.as_ref().map_or(0, |(index, _)| index + 1);
                let Some(block) = fresh.next() else {
                    break Err(Error::new(Kind::Exhausted, "ram-full", "blocks were miscounted"));
                };
                full.extend(self.last.replace((index, block)));
            }
            let Some((_, writer)) = self.last.as_mut() else {
                continue;
            };
            let len = (writer.room() as u64).min(row.len - done) as usize;
            if let Err(e) = copy(done, len, writer) {
                break Err(e);
            }
            done += len as u64;
        };
        if let Err(e) = result {
            self.undo(begin, full);
            return Err(e);
        }
        self.publish(row, full)
    }

    fn make_room_for(&self, row: &Row<'_>) -> Result<()> {
        let held = self.segment.held.read();
        let Held::All(table) = &*held else {
            return Err(lost_its_rows());
        };
        let entries = (table.len() as u64 + 1) * ENTRY_BYTES;
        let needed = table.memory() + ROW_BYTES + (row.name.len() + row.layout.len()) as u64 + entries;
        let mut space = self.segment.space.lock();
        if needed > space.rows.bytes() {
            space.rows.resize(needed.next_multiple_of(ROWS_STEP_BYTES))?;
        }
        Ok(())
    }

    /// Takes back the bytes of an element that failed, for which no location was given out.
    fn undo(&mut self, begin: Option<(u32, usize)>, full: Vec<(u32, BlockWriter)>) {
        let first = full.into_iter().next().or_else(|| self.last.take());
        self.last = begin.and(first).map(|(index, mut writer)| {
            writer.truncate(begin.map_or(0, |b| b.1));
            (index, writer)
        });
    }

    /// Makes an appended element visible.
    fn publish(&mut self, row: &Row<'_>, full: Vec<(u32, BlockWriter)>) -> Result<(u32, Location)> {
        let segment = &self.segment;
        let mut pinned = segment.pinned.lock();
        for (index, writer) in full.iter().chain(&self.last) {
            pinned.entry(*index).or_insert_with(|| Arc::clone(writer.block()));
        }
        drop(pinned);
        self.unwritten.queue.lock().extend(full);

        let mut held = segment.held.write();
        let Held::All(table) = &mut *held else {
            return Err(lost_its_rows());
        };
        let (number, offset) = (table.len(), table.value_len());
        table.push(row.fingerprint, row.name, row.layout, row.len, row.cost);
        *segment.summary.lock() = Summary {
            rows: table.len() as u64,
            value_len: table.value_len(),
            cpu_ns: segment.summary().cpu_ns + row.cost.cpu_ns,
            compression: None,
        };
        let location = Location {
            segment: segment.id,
            offset,
            len: row.len,
            layout: Arc::clone(table.layout(number)),
        };
        Ok((number as u32, location))
    }

    /// What is left to write, if it is as much as may wait: to be run away from the append lock.
    pub fn write_behind(&self, ram: &dyn Blocks) -> Option<WriteBehind> {
        (self.unwritten.queue.lock().len() >= ram.unwritten_blocks()).then(|| self.writer())
    }

    /// Whether commits must wait for the disk.
    pub fn is_behind(&self, ram: &dyn Blocks) -> bool {
        self.unwritten.queue.lock().len() > ram.unwritten_blocks() + BEHIND_BLOCKS_MAX
    }

    /// Writes what waits, and waits for what is being written.
    pub fn writer(&self) -> WriteBehind {
        WriteBehind {
            segment: Arc::clone(&self.segment),
            file: Arc::clone(&self.file),
            unwritten: Arc::clone(&self.unwritten),
        }
    }

    /// Writes what is left, the rows and the footer; syncs; gives it its name. From then on it is
    /// durable. Blocking. On an error the segment must be given up.
    ///
    /// # Errors
    /// As the file system says, or `ssd-full` from `reserve`.
    pub fn close(
        mut self,
        ram: &dyn Blocks,
        metadata: &[(String, String)],
        mut reserve: impl FnMut(&Segment, u64) -> Result<()>,
    ) -> Result<Arc<Segment>> {
        self.unwritten.queue.lock().extend(self.last.take());
        self.writer().run(ram, &mut reserve)?;
        let segment = self.segment;
        let value_len = segment.summary().value_len;
        let stored = {
            let blocks = segment.stored.lock();
            // A write that failed before, and was not heard of, would leave a hole that nothing tells from zeros.
            if !blocks
                .keys()
                .copied()
                .eq(0..value_len.div_ceil(BLOCK_BYTES) as u32)
            {
                return Err(Error::corrupt("a block of a segment was not written"));
            }
            Stored::join(blocks.values().map(Arc::as_ref))
        };
        let compression = self
            .unwritten
            .encoding
            .lock()
            .as_ref()
            .and_then(|e| e.outcome(&stored, value_len));
        segment.summary.lock().compression = compression;
        let mut described = description::of(&segment.summary());
        described.extend_from_slice(metadata);
        described.extend(stored.metadata());
        let (encoded, places) = match &*segment.held.read() {
            Held::All(table) => (
                encode(segment.name, table, value_len, stored.frame(), &described)?,
                table.places(),
            ),
            _ => return Err(lost_its_rows()),
        };
        reserve(&segment, encoded.tail_at + encoded.tail.len() as u64)?;
        self.file.write_at(&encoded.tail, encoded.tail_at)?;
        self.file.write_at(&encoded.head, 0)?;
        self.file.sync()?;
        segment.vfs.publish(&segment.temporary_path(), &segment.path)?;
        let kept = segment.summary().rows * ENTRY_BYTES + places.memory();
        *segment.held.write() = Held::Places(places);
        // Less than all columns took. Shrinking does not fail.
        let _ = segment.space.lock().rows.resize(kept);
        segment.durable.store(true, Ordering::Release);
        *segment.file.write() = None;
        // They are in its footer.
        segment.stored.lock().clear();
        Ok(segment)
    }
}

fn lost_its_rows() -> Error {
    Error::corrupt("an open segment lost its rows")
}

/// Full blocks of one segment on their way to its file.
pub struct WriteBehind {
    segment: Arc<Segment>,
    file: Arc<dyn VfsFile>,
    unwritten: Arc<Unwritten>,
}

impl WriteBehind {
    /// The segment written.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Writes the blocks waiting now and hands them to the RAM tier's policy. Blocking; one at a
    /// time per segment.
    ///
    /// # Errors
    /// As the file system says, or `ssd-full` from `reserve`; the segment must then be given up.
    pub fn run(&self, ram: &dyn Blocks, reserve: &mut impl FnMut(&Segment, u64) -> Result<()>) -> Result<()> {
        let mut encoding = self.unwritten.encoding.lock();
        let queue = std::mem::take(&mut *self.unwritten.queue.lock());
        for (index, writer) in queue {
            let encoding = match &mut *encoding {
                Some(encoding) => encoding,
                undecided => undecided.insert(Encoding::choose(&writer, ram)?),
            };
            reserve(&self.segment, encoding.file_len_max(index, &writer))?;
            let mut buffer = ram.buffer()?;
            let stored = encoding.write(index, &writer, buffer.bytes(), &*self.file)?;
            drop(buffer);
            self.segment.stored.lock().insert(index, Arc::new(stored));
            let block = writer.seal()?;
            let id = BlockId {
                segment: self.segment.id,
                index,
            };
            ram.insert(id, block);
            // Whoever removed it meanwhile forgot its blocks before this one came.
            if self.segment.is_gone() {
                ram.forget(id.segment, index + 1);
            }
            // Only now: whoever looks in between finds it in one place or the other.
            self.segment.pinned.lock().remove(&index);
        }
        Ok(())
    }
}

impl Segment {
    /// What it takes of the budgets.
    pub(crate) fn space(&self) -> parking_lot::MutexGuard<'_, Space> {
        self.space.lock()
    }
}
