//! Counts that outlive the items they are of, and that several processes may add to.

use super::stats::Stats;
use crate::error::{Error, Result};
use crate::raw::{COUNTER_LINES, CounterMemory, process_id};
use rustix::rand::{GetRandomFlags, getrandom};
use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines of one row: processes whose numbers differ by other than a multiple of it do not wait for each other. Half a dozen
/// workers seldom meet, and a thousand data sets take a megabyte.
const ROW: usize = 16;

/// Of the first row, which holds what is said of the table: where its tag is, and where the number of the next row.
const TAG: [usize; 2] = [0, 1];
const NEXT: usize = 2;

/// A row of counters each for many data sets, in memory that processes share: one descriptor and one map for all of them.
#[derive(Clone)]
pub struct CounterTable {
    memory: Arc<CounterMemory>,
    tag: [u64; 2],
}

impl CounterTable {
    /// An empty table, which this process's children have too.
    ///
    /// # Errors
    /// `internal` if the system gives no memory.
    pub fn new() -> Result<CounterTable> {
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|e| Error::internal(e.to_string()))?;
        let table = CounterTable {
            memory: Arc::new(CounterMemory::new()?),
            tag: words(random),
        };
        for (at, word) in TAG.into_iter().zip(table.tag) {
            table.header(at).store(word, Ordering::Relaxed);
        }
        table.header(NEXT).store(1, Ordering::Release);
        Ok(table)
    }

    /// The table of this tag that another process has at an [`CounterTable::address`]; None if it cannot be reached.
    #[must_use]
    pub fn open(address: (u32, u32), tag: [u8; 16]) -> Option<CounterTable> {
        let table = CounterTable {
            memory: Arc::new(CounterMemory::open(address.0, address.1)?),
            tag: words(tag),
        };
        let found = TAG.map(|at| table.header(at).load(Ordering::Relaxed));
        (found == table.tag).then_some(table)
    }

    /// What tells it from every other table.
    #[must_use]
    pub fn tag(&self) -> [u8; 16] {
        let (mut tag, words) = ([0; 16], self.tag.map(u64::to_ne_bytes));
        tag.copy_from_slice(words.as_flattened());
        tag
    }

    /// The process and descriptor by which others of this user can open it; None if they cannot.
    #[must_use]
    pub fn address(&self) -> Option<(u32, u32)> {
        self.memory.address()
    }

    /// A row that no process has taken; None if there is none left. Rows are not given back: a process that nobody knows of may
    /// still count in them.
    #[must_use]
    pub fn take(&self) -> Option<(usize, Counters)> {
        let row = self.header(NEXT).fetch_add(1, Ordering::Relaxed);
        let row = usize::try_from(row).ok()?;
        Some((row, self.row(row)?))
    }

    /// The counters of a row; None beyond the last.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<Counters> {
        let is_one = (1..COUNTER_LINES / ROW).contains(&row);
        is_one.then(|| Counters(Place::Row(Arc::clone(&self.memory), row)))
    }

    fn header(&self, at: usize) -> &AtomicU64 {
        #[expect(
            clippy::expect_used,
            reason = "there is a first line, and each has more than these"
        )]
        let line = self.memory.line(0).expect("the first line");
        &line[at]
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let word = |at: usize| u64::from_ne_bytes(array::from_fn(|i| bytes[8 * at + i]));
    [word(0), word(1)]
}

/// Counts that items add to as they count; see [`crate::Items::count_into`].
#[derive(Clone)]
pub struct Counters(Place);

#[derive(Clone)]
enum Place {
    /// A row of a table.
    Row(Arc<CounterMemory>, usize),
    /// Of this process.
    Own(Arc<[AtomicU64; Stats::COUNTS]>),
}

impl Default for Counters {
    /// Those of this process alone.
    fn default() -> Counters {
        Counters(Place::Own(Arc::default()))
    }
}

impl Counters {
    /// Adds to the counts. Takes no lock; what was added stays if this process is killed.
    pub(crate) fn add(&self, more: &Stats) {
        let counters = match &self.0 {
            Place::Row(memory, row) => memory.line(row * ROW + process_id().unsigned_abs() as usize % ROW),
            Place::Own(counters) => Some(&**counters),
        };
        for (counter, more) in counters.into_iter().flatten().zip(more.counts()) {
            if more != 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// What all that add to them counted so far.
    #[must_use]
    pub fn read(&self) -> Stats {
        match &self.0 {
            Place::Row(memory, row) => {
                let lines = (row * ROW..(row + 1) * ROW).filter_map(|at| memory.line(at));
                lines.fold(Stats::default(), |sum, line| sum.plus(&loaded(line)))
            }
            Place::Own(counters) => loaded(counters),
        }
    }
}

fn loaded(counters: &[AtomicU64; Stats::COUNTS]) -> Stats {
    Stats::of(array::from_fn(|at| counters[at].load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn reused(reused: u64) -> Stats {
        Stats {
            reused,
            ..Stats::default()
        }
    }

    #[test]
    fn rows_are_counted_in_apart_and_run_out() {
        let table = CounterTable::new().unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| table.take()).collect();
        assert_eq!(taken.len(), COUNTER_LINES / ROW - 1);
        for (row, counters) in &taken {
            counters.add(&reused(*row as u64));
        }
        for (row, counters) in &taken {
            assert_eq!(counters.read(), reused(*row as u64));
            assert_eq!(table.row(*row).unwrap().read(), counters.read());
        }
        assert!(table.row(0).is_none() && table.row(COUNTER_LINES / ROW).is_none());
    }

    #[test]
    fn another_process_opens_the_table_of_that_tag_and_no_other() {
        let table = CounterTable::new().unwrap();
        let (row, counters) = table.take().unwrap();
        let address = table.address().unwrap();
        let other = CounterTable::open(address, table.tag()).unwrap();
        other.row(row).unwrap().add(&reused(2));
        assert_eq!(counters.read(), reused(2));
        assert_eq!(other.take().unwrap().0, row + 1);
        assert_eq!(table.take().unwrap().0, row + 2);
        assert!(CounterTable::open(address, [0; 16]).is_none());
        assert!(CounterTable::open((address.0, u32::MAX), table.tag()).is_none());
    }

    #[test]
    fn nothing_that_threads_add_is_lost() {
        for counters in [
            Counters::default(),
            CounterTable::new().unwrap().take().unwrap().1,
        ] {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..1000).for_each(|_| counters.add(&reused(1))));
                }
            });
            assert_eq!(counters.read(), reused(4000));
        }
    }
}
