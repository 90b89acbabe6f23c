//! Which blocks of the daemon's memory this process has mapped.

use crate::data::{BLOCKS_MAX, DataSocket};
use crate::error::{Error, Result};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::raw::{Region, SharedMemory, Watch};
use parking_lot::Mutex;
use prebake_proto::v1::{BlockId, MapBlocks, Return, data_request, data_response};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Evicted blocks looked at in one go. A job that holds on to all its arrays has many that are not idle; looking at them
/// all before each batch would cost more than the batch.
const LOOKS_MAX: usize = 16;

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
    regions: HashMap<u64, Arc<Region>>,
    /// Evicted by the daemon and still mapped here.
    evicted: VecDeque<BlockId>,
}

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

    /// The region that holds the element, if all its blocks are mapped.
    pub(crate) fn region(&self, location: &Location) -> Option<Arc<Region>> {
        let region = self.mapped.lock().regions.get(&location.segment).cloned()?;
        region.covers(&location.bytes).then_some(region)
    }

    /// Maps the blocks of these elements, except those that are gone; how many bytes were read from SSD for it.
    pub(crate) fn map<'a>(
        &self,
        data: &Mutex<DataSocket>,
        locations: impl Iterator<Item = &'a Location>,
    ) -> Result<u64> {
        let mut from_ssd = 0;
        let mut mapped = self.mapped.lock();
        let mut missing: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for location in locations {
            let region = mapped.regions.get(&location.segment);
            if !region.is_some_and(|r| r.covers(&location.bytes)) {
                let blocks = location.blocks(self.block_bytes);
                missing.entry(location.segment).or_default().extend(blocks);
            }
        }
        for (segment, blocks) in missing {
            let region = match mapped.regions.get(&segment) {
                Some(region) => Arc::clone(region),
                None => Arc::new(self.reserve(SEGMENT_BYTES_MAX / self.block_bytes)?),
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
                mapped.regions.insert(segment, region);
            }
        }
        Ok(from_ssd)
    }

    /// Copies an element's cached bytes from blocks mapped afresh, for when this process wrote to those it has. False if
    /// the blocks are gone.
    pub(crate) fn copy_afresh(
        &self,
        data: &Mutex<DataSocket>,
        location: &Location,
        out: &mut [u8],
    ) -> Result<bool> {
        let blocks = location.blocks(self.block_bytes);
        let first = blocks.start;
        let region = self.reserve(blocks.len())?;
        let wanted: Vec<usize> = blocks.collect();
        for fetched in fetch(data, location.segment, &wanted)? {
            region.map(fetched.block - first, fetched.fd)?;
        }
        let shift = first * self.block_bytes;
        Ok(region.copy(location.bytes.start - shift..location.bytes.end - shift, out))
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

    fn reserve(&self, blocks: usize) -> Result<Region> {
        Region::reserve(self.block_bytes, blocks, self.watch.clone())
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
            let Some(region) = self.regions.get(&id.segment) else {
                idle.push(id);
                continue;
            };
            if !region.unmap_if_idle(id.block as usize) {
                self.evicted.push_back(id);
                continue;
            }
            if region.is_empty() {
                self.regions.remove(&id.segment);
            }
            idle.push(id);
        }
        idle
    }
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
