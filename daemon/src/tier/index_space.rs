//! The index's share of the SSD budget: claimed before records are written, corrected by measuring.

use super::ssd::SsdTier;
use crate::{
    error::{Error, Kind, Result},
    limits::budget::Reservation,
};
use parking_lot::Mutex;

/// What a remembered file takes on disk. Measured with 30,000 of them: 260 bytes.
const RECORD_BYTES: u64 = 384;

/// For records of segments and counters, folders, and the last page of each file.
const MARGIN_BYTES: u64 = 256 << 10;

/// The index gets at most this part of the budget: segments are what it is for.
const SHARE: u64 = 4;

/// What the index may take on disk. sled writes up to half a second late, so a claim is kept until the second
/// measurement after it.
pub struct IndexSpace(Mutex<State>);

struct State {
    space: Reservation,
    /// Claimed since the last measurement.
    claimed: u64,
}

impl IndexSpace {
    /// For an index of so many bytes.
    pub fn new(space: Reservation, bytes_on_disk: u64) -> Self {
        let claimed = 0;
        let this = Self(Mutex::new(State { space, claimed }));
        this.measured(bytes_on_disk);
        this
    }

    /// Claims room for so many more files, at the cost of segments.
    ///
    /// # Errors
    /// `index-full` or `ssd-full` if there is none: they are then not to be remembered.
    pub fn claim(&self, files: usize, ssd: &SsdTier) -> Result<()> {
        let mut state = self.0.lock();
        let bytes = RECORD_BYTES * files as u64;
        let wanted = state.space.bytes() + bytes;
        if wanted > ssd.budget().bytes_max() / SHARE {
            return Err(Error::new(
                Kind::Exhausted,
                "index-full",
                "no more files are remembered: a larger SSD budget has room for more",
            ));
        }
        ssd.reserve_beside(&mut state.space, wanted)?;
        state.claimed += bytes;
        Ok(())
    }

    /// Counts what the index takes now. To be called from time to time.
    pub fn measured(&self, bytes_on_disk: u64) {
        let mut state = self.0.lock();
        let late = std::mem::take(&mut state.claimed);
        state.space.set(bytes_on_disk + late + MARGIN_BYTES);
    }
}
