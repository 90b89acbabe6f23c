//! What was done with the items of a collection, in numbers.

/// Counts since the items were opened.
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

impl Stats {
    /// How many counts there are.
    pub(crate) const COUNTS: usize = 8;

    /// All counts, in a fixed order.
    pub(crate) fn counts(&self) -> [u64; Stats::COUNTS] {
        [
            self.computed,
            self.reused,
            self.followed,
            self.bypassed,
            self.verified,
            self.verify_cpu_ns,
            self.bytes_ram,
            self.bytes_ssd,
        ]
    }

    /// The same from [`Stats::counts`].
    pub(crate) const fn of(counts: [u64; Stats::COUNTS]) -> Stats {
        let [
            computed,
            reused,
            followed,
            bypassed,
            verified,
            verify_cpu_ns,
            bytes_ram,
            bytes_ssd,
        ] = counts;
        Stats {
            computed,
            reused,
            followed,
            bypassed,
            verified,
            verify_cpu_ns,
            bytes_ram,
            bytes_ssd,
        }
    }

    /// The sum of both. What another process wrote may be anything.
    pub(crate) fn plus(&self, more: &Stats) -> Stats {
        let (mut counts, more) = (self.counts(), more.counts());
        for (count, more) in counts.iter_mut().zip(more) {
            *count = count.wrapping_add(more);
        }
        Stats::of(counts)
    }
}
