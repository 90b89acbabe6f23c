//! Python's interfaces that are functions of C. All `unsafe` of this crate is in this module.

pub(crate) mod arrays;
pub(crate) mod audit;
pub(crate) mod buffer;
pub(crate) mod locale;
pub(crate) mod looks;
pub(crate) mod memory;
pub(crate) mod references;
pub(crate) mod texts;
