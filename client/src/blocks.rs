//! Which blocks of the daemon's memory this process has mapped.

use crate::data::{BLOCKS_MAX, DataSocket};
use crate::error::{Error, Result};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::raw::{Held, Lent, Readable, Region, SharedMemory, Watch};
use parking_lot::Mutex;
use prebake_proto::v1::{BlockId, MapBlocks, Return, data_request, data_response};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Evicted blocks looked at in one go. A job that holds on to all its arrays has many that are not idle; looking at them
/// all before each batch would cost more than the batch.
const LOOKS_MAX: usize = 16;

/// What an element is mapped for. A job mostly wants one of the two, so that blocks are not mapped for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// To be handed out, writable.
    Private,
    /// To be read where it lies, or copied.
    Reading,
}

/// Mapped blocks by segment. They stay mapped across epochs, until the daemon evicts them and no view is left.
pub(crate) struct Blocks {
    block_bytes: usize,
    watch: Option<Arc<Watch>>,
    doorbell: SharedMemory,
    heard: AtomicU64,
    mapped: Mutex<Mapped>,
}

#[derive(Default)]
struct Mapped {
    private: HashMap<u64, Arc<Region>>,
    reading: HashMap<u64, Arc<Readable>>,
    /// Evicted by the daemon and still mapped here.
    evicted: VecDeque<BlockId>,
}

/// Blocks of one segment that are mapped, of either kind.
trait Maps {
    fn covers(&self, range: &Range<usize>) -> bool;
    fn map(&self, block: usize, fd: OwnedFd) -> Result<()>;
    fn unmap_if_idle(&self, block: usize) -> bool;
    fn is_empty(&self) -> bool;
}

macro_rules! maps {
    ($region:ty) => {
        impl Maps for $region {
            fn covers(&self, range: &Range<usize>) -> bool {
                Self::covers(self, range)
            }
            fn map(&self, block: usize, fd: OwnedFd) -> Result<()> {
                Self::map(self, block, fd)
            }
            fn unmap_if_idle(&self, block: usize) -> bool {
                Self::unmap_if_idle(self, block)
            }
            fn is_empty(&self) -> bool {
                Self::is_empty(self)
            }
        }
    };
}
maps!(Region);
maps!(Readable);

impl Blocks {
    pub(crate) fn new(block_bytes: usize, doorbell: SharedMemory) -> Blocks {
        Blocks {
            block_bytes,
            watch: Watch::open().map(Arc::new),
            heard: AtomicU64::new(doorbell.counter()),
            doorbell,
            mapped: Mutex::default(),
        }
    }

    /// Whether all blocks of the element are mapped.
    pub(crate) fn reaches(&self, access: Access, location: &Location) -> bool {
        let mapped = self.mapped.lock();
        match access {
            Access::Private => covers(&mapped.private, location),
            Access::Reading => covers(&mapped.reading, location),
        }
    }

    /// The element's bytes, to be written to; None if they are not mapped for it, or must be copied.
    pub(crate) fn hand_out(&self, location: &Location) -> Option<Lent> {
        let region = self.mapped.lock().private.get(&location.segment).cloned()?;
        region.hand_out(location.bytes.clone())
    }

    /// The bytes of each of these that has any, in order; None if some are not mapped for it.
    pub(crate) fn hold(&self, locations: &[Location]) -> Option<Vec<Held>> {
        let mapped = self.mapped.lock();
        let hold = |location: &Location| {
            let region = mapped.reading.get(&location.segment)?;
            region.hold(location.bytes.clone())
        };
        let some = locations.iter().filter(|location| !location.bytes.is_empty());
        some.map(hold).collect()
    }

    /// Maps the blocks of these elements, except those that are gone; how many bytes were read from SSD for it.
    pub(crate) fn map<'a>(
        &self,
        access: Access,
        data: &Mutex<DataSocket>,
        locations: impl Iterator<Item = &'a Location>,
    ) -> Result<u64> {
        let mut mapped = self.mapped.lock();
        let blocks = SEGMENT_BYTES_MAX / self.block_bytes;
        match access {
            Access::Private => self.map_into(&mut mapped.private, data, locations, || {
                Region::reserve(self.block_bytes, blocks, self.watch.clone())
            }),
            Access::Reading => self.map_into(&mut mapped.reading, data, locations, || {
                Readable::reserve(self.block_bytes, blocks)
            }),
        }
    }

    fn map_into<'a, R: Maps>(
        &self,
        regions: &mut HashMap<u64, Arc<R>>,
        data: &Mutex<DataSocket>,
        locations: impl Iterator<Item = &'a Location>,
        reserve: impl Fn() -> Result<R>,
    ) -> Result<u64> {
        let mut from_ssd = 0;
        let mut missing: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for location in locations.filter(|location| !covers(regions, location)) {
            let blocks = location.blocks(self.block_bytes);
            missing.entry(location.segment).or_default().extend(blocks);
        }
        for (segment, blocks) in missing {
            let region = match regions.get(&segment) {
                Some(region) => Arc::clone(region),
                None => Arc::new(reserve()?),
            };
            let wanted: Vec<usize> = blocks
                .into_iter()
                .filter(|b| !region.covers(&(b * self.block_bytes..(b + 1) * self.block_bytes)))
                .collect();
            for fetched in fetch(data, segment, &wanted)? {
                region.map(fetched.block, fetched.fd)?;
                from_ssd += u64::from(fetched.from_ssd) * self.block_bytes as u64;
            }
            if !region.is_empty() {
                regions.insert(segment, region);
            }
        }
        Ok(from_ssd)
    }

    /// Looks at the doorbell. If the daemon evicted blocks, unmaps those that no view holds and returns them, so that
    /// their memory is free.
    pub(crate) fn listen(&self, data: &Mutex<DataSocket>) -> Result<()> {
        let rung = self.doorbell.counter();
        let rang = self.heard.swap(rung, Ordering::Relaxed) != rung;
        let mut mapped = self.mapped.lock();
        if rang {
            mapped.evicted = give_back(data, Vec::new())?;
        }
        loop {
            let idle = mapped.unmap_idle();
            if idle.is_empty() {
                return Ok(());
            }
            mapped.evicted = give_back(data, idle)?;
        }
    }

    /// Numbers of the blocks that an element touches.
    pub(crate) fn block_of(&self, location: &Location) -> (u64, u32) {
        let block = location.bytes.start / self.block_bytes;
        (location.segment, u32::try_from(block).unwrap_or(u32::MAX))
    }
}

impl Mapped {
    fn unmap_idle(&mut self) -> Vec<BlockId> {
        let mut idle = Vec::new();
        for _ in 0..self.evicted.len().min(LOOKS_MAX) {
            let Some(id) = self.evicted.pop_front() else {
                break;
            };
            // Both, whatever comes of the first.
            let idle_now = [unmap(&mut self.private, &id), unmap(&mut self.reading, &id)];
            if idle_now.contains(&false) {
                self.evicted.push_back(id);
                continue;
            }
            idle.push(id);
        }
        idle
    }
}

/// Whether all blocks of the element are mapped.
fn covers<R: Maps>(regions: &HashMap<u64, Arc<R>>, location: &Location) -> bool {
    let region = regions.get(&location.segment);
    location.bytes.is_empty() || region.is_some_and(|region| region.covers(&location.bytes))
}

/// Unmaps a block if nobody holds bytes of it; whether it is not mapped any more.
fn unmap<R: Maps>(regions: &mut HashMap<u64, Arc<R>>, id: &BlockId) -> bool {
    let Some(region) = regions.get(&id.segment) else {
        return true;
    };
    if !region.unmap_if_idle(id.block as usize) {
        return false;
    }
    if region.is_empty() {
        regions.remove(&id.segment);
    }
    true
}

/// Tells the daemon what was unmapped; it names the evicted blocks that are still mapped here.
fn give_back(data: &Mutex<DataSocket>, blocks: Vec<BlockId>) -> Result<VecDeque<BlockId>> {
    let request = data_request::Kind::Return(Return { blocks });
    match data.lock().exchange(request)? {
        (data_response::Kind::Returned(returned), _) => Ok(returned.evicted.into()),
        _ => Err(Error::protocol("not an answer to Return")),
    }
}

struct Fetched {
    block: usize,
    fd: OwnedFd,
    from_ssd: bool,
}

/// Those of the blocks that are still there.
fn fetch(data: &Mutex<DataSocket>, segment: u64, blocks: &[usize]) -> Result<Vec<Fetched>> {
    let mut found = Vec::new();
    for wanted in blocks.chunks(BLOCKS_MAX) {
        let request = data_request::Kind::Map(MapBlocks {
            segment,
            blocks: wanted.iter().map(|b| *b as u32).collect(),
        });
        let (answer, fds) = data.lock().exchange(request)?;
        let data_response::Kind::Mapped(mapped) = answer else {
            return Err(Error::protocol("not an answer to MapBlocks"));
        };
        let answers = mapped.blocks.iter().zip(&mapped.from_ssd);
        let there = wanted.iter().zip(answers).filter(|(_, (there, _))| **there);
        let there: Vec<_> = there.map(|(block, (_, from_ssd))| (*block, *from_ssd)).collect();
        let complete = [mapped.blocks.len(), mapped.from_ssd.len()] == [wanted.len(); 2];
        if !complete || there.len() != fds.len() {
            return Err(Error::protocol("blocks and descriptors do not match"));
        }
        let fetched = there.into_iter().zip(fds);
        found.extend(fetched.map(|((block, from_ssd), fd)| Fetched { block, fd, from_ssd }));
    }
    Ok(found)
}
