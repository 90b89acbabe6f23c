//! The tiers: RAM over SSD. RAM holds copies of blocks that are on SSD or on their way there.

pub mod ram;
pub mod ssd;
