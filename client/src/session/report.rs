//! What a job read, counted here and told to the daemon now and then.

use crate::location::Location;
use crate::session::counters::Counters;
use crate::session::stats::Stats;
use prebake_proto::v1::{BlockReads, Report};
use std::collections::HashMap;
use std::time::Duration;

/// Warm reads make no call, so reports are all the daemon knows of them. Often enough for its eviction, seldom enough to
/// cost nothing. A process that is killed, as workers of a cluster are, takes what it has not told yet with it.
const INTERVAL: Duration = Duration::from_millis(250);

/// How an element came to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was there.
    Hit,
    /// Another job was computing it.
    Follow,
    /// This job computed it, and counted it then.
    Own,
}

/// Counts, and which of them were not reported yet.
#[derive(Default)]
pub(crate) struct Tally {
    stats: Stats,
    /// Where the same is counted for this and other processes.
    counters: Option<Counters>,
    told: Stats,
    told_at: Duration,
    reads: HashMap<Block, Reads>,
    /// Of the block that was read last, not among `reads` yet: the next element mostly lies in it too.
    last: Option<(Block, Reads)>,
}

/// Segment, and number in it.
type Block = (u64, u32);

/// Elements, and their bytes.
type Reads = (u32, u64);

impl Tally {
    /// All that was counted.
    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    /// Counts more. Elsewhere too, before it is handed out: a process may be killed at any time.
    pub(crate) fn add(&mut self, more: &Stats) {
        self.stats = self.stats.plus(more);
        if let Some(counters) = &self.counters {
            counters.add(more);
        }
    }

    /// Has these count all that was counted, and what will be.
    pub(crate) fn count_into(&mut self, counters: Counters) {
        counters.add(&self.stats);
        self.counters = Some(counters);
    }

    /// Notes an element served from the cache; `counted` is to be added once for all of a batch.
    pub(crate) fn served(
        &mut self,
        block: Block,
        location: &Location,
        outcome: Outcome,
        counted: &mut Stats,
    ) {
        match outcome {
            Outcome::Hit => counted.reused += 1,
            Outcome::Follow => counted.followed += 1,
            Outcome::Own => {}
        }
        let bytes = location.bytes.len() as u64;
        counted.bytes_ram += bytes;
        match &mut self.last {
            Some((last, (elements, total))) if *last == block => {
                *elements += 1;
                *total += bytes;
            }
            _ => {
                self.put_by();
                self.last = Some((block, (1, bytes)));
            }
        }
    }

    fn put_by(&mut self) {
        if let Some((block, (elements, bytes))) = self.last.take() {
            let all = self.reads.entry(block).or_default();
            *all = (all.0 + elements, all.1 + bytes);
        }
    }

    /// A report that is due, or any there is when `now` is None.
    pub(crate) fn report(&mut self, now: Option<Duration>) -> Option<Report> {
        if now.is_some_and(|now| now.saturating_sub(self.told_at) < INTERVAL) {
            return None;
        }
        self.put_by();
        let (stats, told) = (self.stats, self.told);
        if stats == told && self.reads.is_empty() {
            return None;
        }
        self.told_at = now.unwrap_or(self.told_at);
        self.told = stats;
        let reads = self.reads.drain();
        Some(Report {
            collection: 0,
            hits: stats.reused - told.reused,
            follows: stats.followed - told.followed,
            bypasses: stats.bypassed - told.bypassed,
            verified: stats.verified - told.verified,
            verify_cpu_ns: stats.verify_cpu_ns - told.verify_cpu_ns,
            reads: reads
                .map(|((segment, block), (elements, bytes))| BlockReads {
                    segment,
                    block,
                    elements,
                    bytes,
                })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_block_are_added_up_however_they_come() {
        let mut tally = Tally::default();
        let location = |start: usize, end: usize| Location {
            segment: 7,
            bytes: start..end,
        };
        let mut counted = Stats::default();
        for (block, bytes) in [((7, 0), 10), ((7, 0), 5), ((7, 1), 3), ((8, 0), 1), ((7, 0), 2)] {
            tally.served(block, &location(0, bytes), Outcome::Hit, &mut counted);
        }
        tally.add(&counted);
        assert_eq!((tally.stats().reused, tally.stats().bytes_ram), (5, 21));
        let told = tally.report(None).unwrap();
        let mut reads: Vec<_> = told
            .reads
            .iter()
            .map(|r| (r.segment, r.block, r.elements, r.bytes))
            .collect();
        reads.sort_unstable();
        assert_eq!(reads, [(7, 0, 3, 17), (7, 1, 1, 3), (8, 0, 1, 1)]);
        assert!(tally.report(None).is_none());
    }

    #[test]
    fn what_was_counted_before_is_counted_elsewhere_too() {
        let (mut tally, counters) = (Tally::default(), Counters::default());
        let computed = |computed| Stats {
            computed,
            ..Stats::default()
        };
        tally.add(&computed(2));
        tally.count_into(counters.clone());
        tally.add(&computed(3));
        assert_eq!((tally.stats(), counters.read()), (computed(5), computed(5)));
    }
}
