//! Where the entries of a collection lie: from input fingerprint to segment and row, in less than 30 bytes an entry.
//!
//! Each row's tag (16 bytes) stands once, in runs of rows that follow each other in a segment. What finds it is a hash table
//! of row numbers (4 bytes and one of control, with room to spare), and of the item's name a few bits are kept in a filter.
//! Everything else of a row is the segment's affair.

use crate::{
    collection::{fingerprint_tag::Tag, name_filter::NameFilter},
    segment::{Location, Segment, SegmentId},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::{Arc, Weak};

/// Ghosts of a collection, which explain misses. Past so many, or a quarter of its entries, all are forgotten.
pub const GHOSTS_MAX: usize = 100_000;

/// What is kept of a segment that is gone, in rows: some 600 bytes.
const HOME_ROWS: usize = 32;

/// Rows of a run: 4 KiB of tags, so that nothing is copied to grow but the first tags of a segment.
const RUN_ROWS: usize = 256;

/// Shards double one after the other, because their shares of the entries are as 2^(i/8): the tables together are then never
/// half empty, and what is copied at a time is a twelfth of them. Of 256 entries, each shard has those from its bound on.
const SHARDS: [u8; 8] = [0, 23, 48, 76, 106, 139, 174, 213];

/// Where a home has no run yet, or a run no home.
const NONE: u32 = u32::MAX;

/// Rows of one segment, in order, of which the first is number `first`.
struct Run {
    home: u32,
    first: u32,
    tags: Vec<Tag>,
}

/// A segment that has rows here. What is left of one that is gone are ghosts.
struct Home {
    id: SegmentId,
    segment: Weak<Segment>,
    /// Its own, and [`HOME_ROWS`].
    rows: usize,
    /// The last of its runs.
    run: u32,
}

/// What [`Entries`] keeps of the rows of a segment.
pub struct Keys {
    /// Of each row.
    pub tags: Vec<Tag>,
    /// Hash of each row's name.
    pub names: Vec<u64>,
}

/// The entries of a collection, ghosts included.
#[derive(Default)]
pub struct Entries {
    /// Numbers of rows: run times [`RUN_ROWS`], and place in it.
    shards: [HashTable<u32>; SHARDS.len()],
    runs: Vec<Run>,
    /// Places in `runs` to use again.
    free: Vec<u32>,
    homes: Vec<Home>,
    names: NameFilter,
    /// Rows in runs: those of ghosts, and those that another row took the place of, too.
    rows: usize,
    /// Of these, how many there were when ghosts were last counted.
    counted: usize,
}

impl Entries {
    /// Entries, ghosts included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Whether no entry was ever made.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(HashTable::is_empty)
    }

    /// Whether there is an entry, or a ghost of it.
    pub fn contains(&self, tag: Tag) -> bool {
        self.find(tag).is_some()
    }

    /// Where an entry's element lies.
    pub fn locate(&self, tag: Tag) -> Option<Location> {
        let (home, row) = self.find(tag)?;
        home.segment.upgrade()?.locate(row)
    }

    /// The segment that an entry lies or lay in.
    pub fn segment_of(&self, tag: Tag) -> Option<SegmentId> {
        self.find(tag).map(|(home, _)| home.id)
    }

    /// Whether an item of this name has, or lately had, an entry: rarely said of one that never had.
    pub fn knows(&self, name: u64) -> bool {
        self.names.contains(name)
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, rows: usize) {
        let bounds = SHARDS.iter().map(|bound| usize::from(*bound)).chain([256]);
        let bounds: Vec<_> = bounds.collect();
        let runs = &self.runs;
        for (shard, bound) in self.shards.iter_mut().zip(bounds.windows(2)) {
            let share = rows * (bound[1] - bound[0]) / 256;
            shard.reserve(share, |number| row_tag(runs, *number).hash());
        }
    }

    /// Makes a row of a segment an entry, in place of an earlier one of the same input.
    pub fn insert(&mut self, segment: &Arc<Segment>, row: u32, tag: Tag, name: u64) {
        let number = self.append(segment, row, tag);
        let runs = &self.runs;
        let same = |other: &u32| row_tag(runs, *other) == tag;
        let rehash = |other: &u32| row_tag(runs, *other).hash();
        match self.shards[shard_of(tag)].entry(tag.hash(), same, rehash) {
            Entry::Occupied(mut entry) => *entry.get_mut() = number,
            Entry::Vacant(place) => drop(place.insert(number)),
        }
        self.names.insert(name);
    }

    /// Makes all rows of a segment entries; whether it had none here so far. If it had, they take the place of ghosts alone.
    pub fn enter(&mut self, segment: &Arc<Segment>, keys: &Keys) -> bool {
        let is_new = self.homes.iter().all(|home| home.id != segment.id);
        for (row, (tag, name)) in keys.tags.iter().zip(&keys.names).enumerate() {
            if is_new || self.locate(*tag).is_none() {
                self.insert(segment, row as u32, *tag, *name);
            }
        }
        is_new
    }

    /// Forgets entries whose segments are gone, if there may be too many.
    pub fn forget_ghosts(&mut self) {
        // Seldom enough that it costs little for each entry made.
        if self.rows <= self.counted + GHOSTS_MAX.max(self.counted / 4) {
            return;
        }
        self.counted = self.rows;
        let is_gone = |home: &Home| home.segment.upgrade().is_none_or(|s| s.is_gone());
        let gone: Vec<bool> = self.homes.iter().map(is_gone).collect();
        let lost = self.homes.iter().zip(&gone).filter(|(_, gone)| **gone);
        let ghosts: usize = lost.map(|(home, _)| home.rows).sum();
        if ghosts <= GHOSTS_MAX.max(self.rows / 4) {
            return;
        }
        let is_ghost = |run: &Run| gone.get(run.home as usize).is_some_and(|gone| *gone);
        let runs = &mut self.runs;
        for shard in &mut self.shards {
            shard.retain(|number| !is_ghost(&runs[*number as usize / RUN_ROWS]));
            shard.shrink_to_fit(|number| row_tag(runs, *number).hash());
        }
        // Numbered anew without those that are gone.
        let mut kept = 0;
        let places: Vec<_> = gone
            .iter()
            .map(|gone| (kept, kept += u32::from(!gone)).0)
            .collect();
        for (place, run) in runs.iter_mut().enumerate().filter(|(_, run)| run.home != NONE) {
            if gone[run.home as usize] {
                *run = Run {
                    home: NONE,
                    first: 0,
                    tags: Vec::new(),
                };
                self.free.push(place as u32);
            } else {
                run.home = places[run.home as usize];
            }
        }
        let mut gone = gone.iter();
        self.homes.retain(|_| gone.next() == Some(&false));
        self.rows -= ghosts;
        self.counted = self.rows;
        self.names.forget(self.rows);
    }

    fn find(&self, tag: Tag) -> Option<(&Home, u32)> {
        let same = |number: &u32| row_tag(&self.runs, *number) == tag;
        let number = *self.shards[shard_of(tag)].find(tag.hash(), same)?;
        let run = &self.runs[number as usize / RUN_ROWS];
        Some((
            &self.homes[run.home as usize],
            run.first + number % RUN_ROWS as u32,
        ))
    }

    /// Keeps a row's tag; the row's number.
    fn append(&mut self, segment: &Arc<Segment>, row: u32, tag: Tag) -> u32 {
        // Nearly always the last.
        let home = self.homes.iter().rposition(|home| home.id == segment.id);
        let home = home.unwrap_or_else(|| {
            let (id, segment) = (segment.id, Arc::downgrade(segment));
            self.homes.push(Home {
                id,
                segment,
                rows: HOME_ROWS,
                run: NONE,
            });
            self.rows += HOME_ROWS;
            self.homes.len() - 1
        });
        let follows = |run: &Run| run.tags.len() < RUN_ROWS && run.first + run.tags.len() as u32 == row;
        if !self.runs.get(self.homes[home].run as usize).is_some_and(follows) {
            // What comes after 4 KiB of tags will mostly fill as much; small segments take what they need.
            let room = if row == 0 { 0 } else { RUN_ROWS };
            let run = Run {
                home: home as u32,
                first: row,
                tags: Vec::with_capacity(room),
            };
            self.homes[home].run = match self.free.pop() {
                Some(place) => {
                    self.runs[place as usize] = run;
                    place
                }
                None => {
                    self.runs.push(run);
                    self.runs.len() as u32 - 1
                }
            };
        }
        let home = &mut self.homes[home];
        home.rows += 1;
        self.rows += 1;
        let tags = &mut self.runs[home.run as usize].tags;
        tags.push(tag);
        home.run * RUN_ROWS as u32 + tags.len() as u32 - 1
    }
}

fn row_tag(runs: &[Run], number: u32) -> Tag {
    runs[number as usize / RUN_ROWS].tags[number as usize % RUN_ROWS]
}

fn shard_of(tag: Tag) -> usize {
    // The first bound is 0.
    SHARDS.partition_point(|bound| *bound <= tag.last_byte()) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collection::fingerprint_tag::Tagger,
        limits::budget::Budget,
        system::{clock::SystemClock, random::SystemRandom},
        tier::{
            ram::RamTier,
            ssd::{SsdTier, Why},
        },
        vfs::OsVfs,
    };
    use prebake_fingerprint::Digest;

    #[test]
    fn what_is_evicted_and_stored_again_and_again_takes_no_more_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let ram = Arc::new(RamTier::new(crate::config::RAM_BYTES_MIN, false).unwrap());
        let (budget, clock) = (Budget::new(1 << 30, "ssd-full"), Arc::new(SystemClock::default()));
        let ssd = SsdTier::new(
            folder.path().into(),
            budget,
            Arc::new(OsVfs),
            clock,
            Arc::new(SystemRandom),
            ram,
            |_| {},
        );
        let tagger = Tagger::new(&SystemRandom).unwrap();
        let mut entries = Entries::default();
        let each = GHOSTS_MAX as u32 / 4;
        let mut most = 0;
        for _ in 0..12 {
            let open = ssd.create(1, "aa").unwrap();
            for row in 0..each {
                let mut input = Digest([0; 32]);
                input.0[..4].copy_from_slice(&row.to_le_bytes());
                let name = NameFilter::hash(&row.to_string());
                entries.insert(open.segment(), row, tagger.tag(&input), name);
            }
            assert_eq!(entries.len(), each as usize);
            ssd.remove(open.segment().id, Why::Asked);
            entries.forget_ghosts();
            most = most.max(entries.runs.iter().map(|run| run.tags.len()).sum());
        }
        assert!(most < GHOSTS_MAX + 2 * each as usize, "{most}");
        assert!(
            entries.runs.len() < 2 * GHOSTS_MAX / RUN_ROWS,
            "places are used again"
        );
    }
}
