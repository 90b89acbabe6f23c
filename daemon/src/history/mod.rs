//! What jobs did lately, and why: their misses and what they would not have cached.

pub mod misses;
pub mod refusals;
