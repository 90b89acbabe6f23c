//! How the process's descriptors are shared out: blocks, jobs and files are each kept to a part of the limit, so that none
//! of them takes what another cannot do without.

use crate::{segment::OpenedFiles, session::SESSIONS_MAX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Blocks get one part in so many: they are what the daemon is there for.
const BLOCKS_SHARE: u64 = 2;

/// Jobs get one part in so many, and each job takes its two connections, its process, its staging memory and its ring.
const SESSIONS_SHARE: u64 = 4;
const SESSION_DESCRIPTORS: u64 = 5;

/// Files of segments that stay open get one part in so many, and each takes two.
const FILES_SHARE: u64 = 16;
const FILE_DESCRIPTORS: u64 = 2;

/// Connections of each socket that are no job's (yet) get one part in so many. What is left is for files being written,
/// the index, and scrapes.
const OTHERS_SHARE: u64 = 32;
const OTHERS_MAX: u64 = 256;

/// Descriptors that this process may have.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors(u64);

impl Descriptors {
    /// As many as the system lets it have: the limit that is in force by default, 1,024, is for programs that use `select`.
    pub fn raise() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
        Self(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    /// How many there are.
    pub fn count(self) -> u64 {
        self.0
    }

    /// Blocks of the RAM tier.
    pub fn blocks(self) -> u64 {
        self.0 / BLOCKS_SHARE
    }

    /// Jobs at once.
    pub fn sessions(self) -> usize {
        let sessions = self.0 / SESSIONS_SHARE / SESSION_DESCRIPTORS;
        usize::try_from(sessions).map_or(SESSIONS_MAX, |sessions| sessions.clamp(1, SESSIONS_MAX))
    }

    /// Files of segments that stay open.
    pub fn files(self) -> usize {
        let files = self.0 / FILES_SHARE / FILE_DESCRIPTORS;
        usize::try_from(files).map_or(OpenedFiles::MAX, |files| files.clamp(1, OpenedFiles::MAX))
    }

    /// Connections of one socket.
    pub fn connections(self) -> usize {
        self.sessions() + (self.0 / OTHERS_SHARE).clamp(1, OTHERS_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_together_leave_some_for_the_rest() {
        for count in [64, 256, 1024, 1 << 20, u64::MAX] {
            let all = Descriptors(count);
            let sessions = all.sessions() as u64 * SESSION_DESCRIPTORS;
            let others = 2 * (all.connections() - all.sessions()) as u64;
            let files = all.files() as u64 * FILE_DESCRIPTORS;
            assert!(
                all.blocks() + sessions + others + files <= count - count / 8,
                "{count}"
            );
        }
    }
}
