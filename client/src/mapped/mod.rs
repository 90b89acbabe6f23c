//! The daemon's memory as this process has it mapped, and what is handed out of it.

pub(crate) mod blocks;
pub(crate) mod gather;
pub(crate) mod view;
