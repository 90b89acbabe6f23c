//! Bounds of what the daemon may take: budgets of bytes, and the memory of its container.

pub mod budget;
pub mod cgroup;
