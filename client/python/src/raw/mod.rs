//! Python's interfaces that are functions of C. All `unsafe` of this crate is in this module.

pub(crate) mod arrays;
pub(crate) mod audit;
pub(crate) mod buffer;
mod file_functions;
mod heard;
mod linkage;
pub(crate) mod locale;
pub(crate) mod looks;
pub(crate) mod memory;
mod object;
pub(crate) mod opens;
pub(crate) mod references;
pub(crate) mod texts;
