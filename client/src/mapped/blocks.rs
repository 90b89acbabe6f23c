//! Which blocks of the daemon's memory this process has mapped.

use crate::connection::data_socket::{BLOCKS_MAX, DataSocket};
use crate::error::{Code, Error, Result};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::raw::{Held, Lent, Readable, Region, SharedMemory, Watch};
use parking_lot::Mutex;
use prebake_proto::v1::{BlockId, MapBlocks, Return, data_request, data_response};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Set for good once an element was not in RAM.
    reads: AtomicBool,
}

#[derive(Default)]
struct Mapped {
    private: HashMap<u64, Arc<Region>>,
    reading: HashMap<u64, Arc<Readable>>,
    /// Evicted by the daemon and still mapped here.
    evicted: VecDeque<BlockId>,
    /// Blocks that were not in RAM when last asked for: they are read (see [`crate::session::ssd_reader`]), and not asked for again.
    on_ssd: HashSet<(u64, usize)>,
}

/// What became of blocks that were to be mapped.
#[derive(Default)]
pub(crate) struct Mapping {
    /// Bytes read from SSD for it.
    pub(crate) from_ssd: u64,
    gone: HashSet<(u64, usize)>,
    on_ssd: HashSet<(u64, usize)>,
}

/// Which blocks are to be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that are in RAM.
    Resident,
    /// All, which brings them there.
    All,
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
            reads: AtomicBool::new(false),
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

    /// Maps the blocks of these elements, as far as they are there.
    pub(crate) fn map<'a>(
        &self,
        access: Access,
        data: &Mutex<DataSocket>,
        locations: impl Iterator<Item = &'a Location>,
        which: Which,
    ) -> Result<Mapping> {
        let Mapped {
            private,
            reading,
            on_ssd,
            ..
        } = &mut *self.mapped.lock();
        let blocks = SEGMENT_BYTES_MAX / self.block_bytes;
        let fetch = |segment, wanted: &[usize], map: &dyn Fn(usize, OwnedFd) -> Result<()>| {
            let unknown = |block: &&usize| which == Which::All || !on_ssd.contains(&(segment, **block));
            let wanted: Vec<usize> = wanted.iter().filter(unknown).copied().collect();
            fetch(data, segment, &wanted, which, map)
        };
        let mapping = match access {
            Access::Private => self.map_into(private, fetch, locations, || {
                Region::reserve(self.block_bytes, blocks, self.watch.clone())
            }),
            Access::Reading => self.map_into(reading, fetch, locations, || {
                Readable::reserve(self.block_bytes, blocks)
            }),
        }?;
        if !mapping.on_ssd.is_empty() {
            self.reads.store(true, Ordering::Relaxed);
        }
        on_ssd.extend(&mapping.on_ssd);
        Ok(mapping)
    }

    /// Whether elements were found that are not in RAM.
    pub(crate) fn must_read(&self) -> bool {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether a block of the element was not in RAM when last asked for.
    pub(crate) fn is_on_ssd(&self, location: &Location) -> bool {
        let mapped = self.mapped.lock();
        let mut blocks = location.blocks(self.block_bytes);
        !mapped.on_ssd.is_empty() && blocks.any(|block| mapped.on_ssd.contains(&(location.segment, block)))
    }

    /// Blocks that were not in RAM may be there now.
    pub(crate) fn ask_again(&self) {
        self.mapped.lock().on_ssd.clear();
    }

    fn map_into<'a, R: Maps>(
        &self,
        regions: &mut HashMap<u64, Arc<R>>,
        fetch: impl Fn(u64, &[usize], &dyn Fn(usize, OwnedFd) -> Result<()>) -> Result<Fetched>,
        locations: impl Iterator<Item = &'a Location>,
        reserve: impl Fn() -> Result<R>,
    ) -> Result<Mapping> {
        let mut mapping = Mapping::default();
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
            let fetched = fetch(segment, &wanted, &|block, fd| region.map(block, fd));
            // Also what came before it failed.
            if !region.is_empty() {
                regions.insert(segment, Arc::clone(&region));
            }
            let fetched = fetched?;
            mapping.from_ssd += fetched.from_ssd * self.block_bytes as u64;
            mapping
                .gone
                .extend(fetched.gone.into_iter().map(|block| (segment, block)));
            mapping
                .on_ssd
                .extend(fetched.on_ssd.into_iter().map(|block| (segment, block)));
        }
        Ok(mapping)
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

    /// Enters the bytes into the page tables, if they are mapped. False where the kernel cannot.
    pub(crate) fn populate(&self, access: Access, location: &Location) -> bool {
        // Not under the lock, for which readers would wait.
        match access {
            Access::Private => {
                let region = self.mapped.lock().private.get(&location.segment).cloned();
                region.is_none_or(|region| region.populate(&location.bytes))
            }
            Access::Reading => {
                let region = self.mapped.lock().reading.get(&location.segment).cloned();
                region.is_none_or(|region| region.populate(&location.bytes))
            }
        }
    }

    /// Whether an element cannot be had any more: its segment was evicted.
    pub(crate) fn is_gone(&self, mapping: &Mapping, location: &Location) -> bool {
        let mut blocks = location.blocks(self.block_bytes);
        blocks.any(|block| mapping.gone.contains(&(location.segment, block)))
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

#[derive(Default)]
struct Fetched {
    on_ssd: Vec<usize>,
    gone: Vec<usize>,
    /// Blocks that were read from SSD for it.
    from_ssd: u64,
}

/// Blocks of a segment, each given to `map` as soon as it comes: descriptors are few.
fn fetch(
    data: &Mutex<DataSocket>,
    segment: u64,
    blocks: &[usize],
    which: Which,
    map: &dyn Fn(usize, OwnedFd) -> Result<()>,
) -> Result<Fetched> {
    let mut found = Fetched::default();
    let (mut rest, mut most) = (blocks, BLOCKS_MAX);
    while !rest.is_empty() {
        let (wanted, after) = rest.split_at(most.min(rest.len()));
        let request = data_request::Kind::Map(MapBlocks {
            segment,
            blocks: wanted.iter().map(|b| *b as u32).collect(),
            resident: which == Which::Resident,
        });
        let (answer, fds) = match data.lock().exchange(request) {
            // Perhaps not all of them fit what this process may have open, which is enough for fewer at a time.
            Err(error) if error.code() == Code::NoResources && most > 1 => {
                most = wanted.len().div_ceil(2).min(most / 2);
                continue;
            }
            answer => answer?,
        };
        rest = after;
        let data_response::Kind::Mapped(mapped) = answer else {
            return Err(Error::protocol("not an answer to MapBlocks"));
        };
        let counts = [mapped.blocks.len(), mapped.from_ssd.len(), mapped.on_ssd.len()];
        let there = mapped.blocks.iter().filter(|there| **there).count();
        if counts != [wanted.len(); 3] || there != fds.len() {
            return Err(Error::protocol("blocks and descriptors do not match"));
        }
        found.from_ssd += mapped.from_ssd.iter().filter(|read| **read).count() as u64;
        let mut fds = fds.into_iter();
        for ((block, there), on_ssd) in wanted.iter().zip(&mapped.blocks).zip(&mapped.on_ssd) {
            match there.then(|| fds.next()).flatten() {
                Some(fd) => map(*block, fd)?,
                None if *on_ssd => found.on_ssd.push(*block),
                None => found.gone.push(*block),
            }
        }
    }
    Ok(found)
}
