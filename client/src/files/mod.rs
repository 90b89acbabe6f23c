//! Files that inputs stand for: which they are, what they hold, and whether they changed.

pub(crate) mod content;
pub(crate) mod file_system;
pub(crate) mod folder_watch;
pub(crate) mod paths;
pub(crate) mod walk;
