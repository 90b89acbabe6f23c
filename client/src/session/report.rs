//! What a job read, counted here and told to the daemon now and then.

use crate::location::Location;
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

/// Counts of one process and collection since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Elements computed and stored.
    pub computed: u64,
    /// Elements served that were there.
    pub reused: u64,
    /// Elements served that another job was computing when they were first asked for.
    pub followed: u64,
    /// Elements computed and not stored.
    pub bypassed: u64,
    /// Elements served that were computed again and found to be the same, and the CPU time of that in nanoseconds.
    pub verified: u64,
    /// See `verified`.
    pub verify_cpu_ns: u64,
    /// Bytes served, all of them from RAM in the end.
    pub bytes_ram: u64,
    /// Bytes that the daemon read from SSD for that: of elements what surrounds them too, and whole blocks that it kept.
    pub bytes_ssd: u64,
}

/// Counts, and which of them were not reported yet.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) stats: Stats,
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
    /// Counts an element served from the cache.
    pub(crate) fn served(&mut self, block: Block, location: &Location, outcome: Outcome) {
        match outcome {
            Outcome::Hit => self.stats.reused += 1,
            Outcome::Follow => self.stats.followed += 1,
            Outcome::Own => {}
        }
        let bytes = location.bytes.len() as u64;
        self.stats.bytes_ram += bytes;
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
        for (block, bytes) in [((7, 0), 10), ((7, 0), 5), ((7, 1), 3), ((8, 0), 1), ((7, 0), 2)] {
            tally.served(block, &location(0, bytes), Outcome::Hit);
        }
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
}
