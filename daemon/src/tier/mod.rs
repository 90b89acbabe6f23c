//! The tiers: RAM over SSD. RAM holds copies of blocks that are on SSD or on their way there.

mod index_space;
pub mod ram;
pub mod read_ahead;
pub mod ssd;

pub use index_space::IndexSpace;
